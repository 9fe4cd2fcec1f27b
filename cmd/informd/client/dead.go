package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

func newDeadCommand() *cobra.Command {
	cmd := cli.NewGroup("dead", "List, show, retry and drop dead letters of the running daemon",
		`List, show, retry and drop dead letters: events that their handler rejected, or that used
up their attempts.
`+whichDaemon)
	flags := addControlFlags(cmd)
	cmd.AddCommand(newDeadListCommand(flags), newDeadShowCommand(flags),
		newDeadActCommand(flags, "retry", "Deliver dead letters again",
			`Deliver dead letters again: the same events, with the same ids, ahead of what else
waits for their objects. The handlers may have received later changes of these objects in the
meantime.
`, "to be delivered again", (*control.Client).Retry),
		newDeadActCommand(flags, "drop", "Drop dead letters",
			"Drop dead letters: informd forgets their events.\n",
			"dropped", (*control.Client).Drop),
	)
	return cmd
}

// whichLetters says in the help of commands how letters are chosen.
const whichLetters = `--rule, --handler, --namespace, --reason and --since choose letters, and several of them choose
those for which all hold. In the TEXT of --reason, … stands for any text: so what informd dead list
prints as a reason can be given back as it is.
`

func newDeadListCommand(flags *controlFlags) *cobra.Command {
	var chosen selection
	var output string
	cmd := &cobra.Command{
		Use: "list [--rule NAME] [--handler NAME] [-n NAMESPACE] [--name NAME] " +
			"[--reason TEXT] [--since DURATION] [-o wide|json]",
		Short: "List dead letters, the oldest first",
		Long: `List dead letters, the oldest first. The ids are short: the other commands take them so, and
whole. The column SINCE THEN says "delivered" if a later event of the object has been delivered to
the same rule since informd started. So perhaps nothing is amiss any more.

If there are more than 20, those of one rule with the same reason share a line, with their number. A
name, a uid, a time or a long number in which their reasons differ is … there.

` + whichLetters + `
The table fits the terminal. -o wide cuts nothing, adds columns, and has a line for each letter.
-o json has everything.
` + whichDaemon,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(cli.NoArguments(cmd, args), chosen.check())
		},
	}
	chosen.addFlags(cmd, flags)
	outputFlag(cmd, &output, "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			letters, err := chosen.find(cmd.Context(), c, time.Now())
			if err != nil {
				return err
			}
			if output == "json" {
				if letters == nil {
					letters = []control.Letter{}
				}
				return writeDocument(cmd.OutOrStdout(), output, map[string]any{"items": letters})
			}
			out := cmd.OutOrStdout()
			as, now := newShape(out, output), time.Now()
			if kinds := kindsOf(letters); areMany(letters, kinds) && !as.wide {
				return writeKinds(out, kinds, len(letters), flags, chosen, as, now)
			}
			if len(letters) == 0 && !chosen.isAll() {
				return none(out, "no dead letters of these; without flags, informd dead list shows all")
			}
			return writeLetters(out, letters, as, now)
		})
	}
	return cmd
}

// maxLetters is how many letters a table shows one by one.
const maxLetters = 20

// areMany reports whether letters are better shown by kind.
func areMany(letters []control.Letter, kinds []kind) bool {
	return len(letters) > maxLetters && len(kinds) <= len(letters)/2
}

// writeKinds writes a line for each kind of letters, and how to choose those of the first line. n is
// the number of letters.
func writeKinds(
	w io.Writer, kinds []kind, n int, flags *controlFlags, chosen selection, as shape, now time.Time,
) error {
	isMarked := slices.ContainsFunc(kinds, func(k kind) bool { return k.delivered > 0 })
	header := []string{"LETTERS", "RULE", "DIED FROM", "TO", "REASON"}
	if isMarked {
		header = []string{"LETTERS", "RULE", "DIED FROM", "TO", "SINCE THEN", "REASON"}
	}
	t := newTableWithin(w, as.most, header...)
	t.whole = 2
	for _, k := range kinds {
		cells := []string{
			strconv.Itoa(k.count), k.rule, age(now, k.oldest), age(now, k.newest),
		}
		if isMarked {
			delivered := ""
			if k.delivered > 0 {
				delivered = fmt.Sprintf("%d delivered", k.delivered)
			}
			cells = append(cells, delivered)
		}
		t.row(append(cells, k.reason)...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	chosen.rule, chosen.reason = kinds[0].rule, kinds[0].reason
	_, err := fmt.Fprintf(w, "\n%d dead letters; -o wide lists each. "+
		"To retry those of the first line:\n    %s\n",
		n, flags.command(append([]string{"dead", "retry"}, chosen.args()...)...))
	return err
}

// reasonWidth is where a table cuts a reason, in characters.
const reasonWidth = 160

func writeLetters(w io.Writer, letters []control.Letter, as shape, now time.Time) error {
	if len(letters) == 0 {
		return none(w, "no dead letters")
	}
	if as.wide {
		return writeLettersWide(w, letters, now)
	}
	isMarked := slices.ContainsFunc(letters, func(l control.Letter) bool {
		return !l.Delivered.IsZero()
	})
	header := []string{"ID", "OBJECT", "DIED", "REASON"}
	if isMarked {
		header = []string{"ID", "OBJECT", "DIED", "SINCE THEN", "REASON"}
	}
	t := newTableWithin(w, as.most, header...)
	t.whole = 1
	ids := shortIDs(letters)
	for i, l := range letters {
		cells := []string{ids[i], keyOf(l.Namespace, l.Name), age(now, l.Died)}
		if isMarked {
			cells = append(cells, sinceThen(l))
		}
		t.row(append(cells, shortened(cli.Printable(l.Reason), reasonWidth))...)
	}
	return t.flush()
}

func writeLettersWide(w io.Writer, letters []control.Letter, now time.Time) error {
	t := newTable(w,
		"ID", "RESOURCE", "OBJECT", "HANDLER", "ATTEMPTS", "DIED", "SINCE THEN", "REASON")
	for _, l := range letters {
		t.row(l.ID, l.Resource, keyOf(l.Namespace, l.Name), l.Handler, strconv.Itoa(l.Attempts),
			age(now, l.Died), sinceThen(l), l.Reason)
	}
	return t.flush()
}

// sinceThen says whether a later event of the object was delivered.
func sinceThen(l control.Letter) string {
	if l.Delivered.IsZero() {
		return ""
	}
	if l.Handler == control.OwnActions {
		return "succeeded"
	}
	return "delivered"
}

// keyOf returns NAMESPACE/NAME, or NAME for an object without a namespace.
func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func newDeadShowCommand(flags *controlFlags) *cobra.Command {
	var output string
	var showSecrets bool
	cmd := &cobra.Command{
		Use:   "show ID [-o json|yaml] [--show-secrets]",
		Short: "Show a dead letter and the event that the handler received",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("give the id of one dead letter; informd dead list -o wide shows them")
			}
			return nil
		},
		ValidArgsFunction: flags.completer(1, letterIDs),
	}
	outputFlag(cmd, &output, "json", "yaml")
	showSecretsFlag(cmd, &showSecrets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return flags.ask(func(c *control.Client) error {
			ids, err := fullIDs(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			letter, err := c.Letter(cmd.Context(), ids[0], showSecrets)
			if err != nil {
				return err
			}
			if output != "" {
				return writeDocument(cmd.OutOrStdout(), output, letter)
			}
			return writeLetter(cmd.OutOrStdout(), letter, flags, time.Now())
		})
	}
	return cmd
}

func showSecretsFlag(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, "show-secrets", false, "show the values of Secrets instead of ***")
}

// writeLetter writes a letter with what to do about it. Its advice names commands for the daemon that
// flags name.
func writeLetter(w io.Writer, l control.Letter, flags *controlFlags, now time.Time) error {
	t := newTable(w, "id", l.ID)
	t.row("rule", l.Rule)
	t.row("handler", l.Handler)
	t.row("object", keyOf(l.Namespace, l.Name))
	t.row("resource", l.Resource)
	if l.Event != nil && len(l.Event.Items) > 0 {
		t.row("items", fmt.Sprintf("%d (the last is of this object)", len(l.Event.Items)))
	}
	t.row("selected", moment(l.Since, now))
	t.row("died", moment(l.Died, now))
	if !l.Delivered.IsZero() {
		what := "a later event was delivered at "
		if l.Handler == control.OwnActions {
			what = "the rule succeeded with a later event at "
		}
		t.row("since then", what+moment(l.Delivered, now))
	}
	t.row("attempts", strconv.Itoa(l.Attempts))
	t.row("reason", l.Reason)
	if mend := toMend(l.Reason); mend != "" {
		t.row("to do", mend+"; then: "+flags.command("dead", "retry", l.ID))
	}
	if err := t.flush(); err != nil {
		return err
	}
	who := "handler"
	if l.Handler == control.OwnActions {
		who = "rule"
	}
	if _, err := fmt.Fprintf(w, "\nevent, as the %s saw it:\n", who); err != nil {
		return err
	}
	return writeDocument(w, "yaml", l.Event)
}

func moment(then, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", then.Format(time.RFC3339), age(now, then))
}

type actOnLetters func(
	*control.Client, context.Context, control.LetterChoice) (control.Outcome, error)

func newDeadActCommand(
	flags *controlFlags, name, short, long, done string, act actOnLetters) *cobra.Command {
	var chosen selection
	var all, yes bool
	cmd := &cobra.Command{
		Use: name + " ID…|--all|[--rule NAME] [--handler NAME] [-n NAMESPACE] [--name NAME] " +
			"[--reason TEXT] [--since DURATION] [--yes]",
		Short: short,
		Long: long + `
Choose them by id as informd dead list -o wide shows it, by flags, or take all of them.

` + whichLetters + `
On a terminal, the command asks before it takes several letters that flags choose. --yes answers.
The command lists the letters that it could not ` + name + `, handles the rest, and then ends with
exit code 1.
` + whichDaemon,
		Args: func(_ *cobra.Command, args []string) error {
			return errors.Join(oneChoice(args, chosen, all), chosen.check())
		},
		ValidArgsFunction: flags.completer(1000, letterIDs),
	}
	chosen.addFlags(cmd, flags)
	cmd.Flags().BoolVar(&all, "all", false, "choose all of them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return flags.ask(func(c *control.Client) error {
			ids, err := fullIDs(cmd.Context(), c, args)
			if err == nil && len(args) == 0 {
				ids, err = chosen.confirmed(cmd, c, name, yes)
			}
			if err != nil {
				return err
			}
			var outcome control.Outcome
			if len(ids) > 0 {
				outcome, err = act(c, cmd.Context(), control.LetterChoice{IDs: ids})
			}
			if err != nil {
				return err
			}
			letters := cli.Plural(outcome.Done, "letter")
			if err := cli.Show(cmd, "%d dead %s %s\n", outcome.Done, letters, done); err != nil {
				return err
			}
			var failures []error
			if outcome.Unwritten != "" {
				failures = append(failures, errors.New("a restart may undo that: "+
					cli.Printable(outcome.Unwritten)))
			}
			for _, f := range outcome.Failures {
				failures = append(failures, errors.New(cli.Printable(f.Error)))
			}
			return errors.Join(failures...)
		})
	}
	return cmd
}

// confirmed returns the ids of the letters that s chooses, once the person at the terminal has agreed
// that name is done to several.
func (s *selection) confirmed(
	cmd *cobra.Command, c *control.Client, name string, yes bool,
) (ids []string, err error) {
	letters, err := s.find(cmd.Context(), c, time.Now())
	if err != nil {
		return nil, err
	}
	if len(letters) > 1 && !yes && isTerminal(cmd.InOrStdin()) {
		question := fmt.Sprintf("%s %d dead letters of %s?", name, len(letters), rulesOf(letters))
		if !agrees(cmd.InOrStdin(), cmd.ErrOrStderr(), question) {
			return nil, errors.New("nothing was changed")
		}
	}
	for _, l := range letters {
		ids = append(ids, l.ID)
	}
	return ids, nil
}

// rulesOf names the rules of letters.
func rulesOf(letters []control.Letter) string {
	names := make(map[string]struct{})
	for _, l := range letters {
		names[l.Rule] = struct{}{}
	}
	all := slices.Sorted(maps.Keys(names))
	if len(all) == 1 {
		return "rule " + cli.Printable(all[0])
	}
	return fmt.Sprintf("%d rules", len(all))
}

// oneChoice checks that letters are chosen in exactly one way: by ids, by flags, or all.
func oneChoice(ids []string, chosen selection, all bool) error {
	ways := 0
	for _, is := range []bool{len(ids) > 0, chosen != selection{}, all} {
		if is {
			ways++
		}
	}
	switch ways {
	case 0:
		return errors.New("which dead letters? Give their ids, flags that choose them, or --all")
	case 1:
		return nil
	}
	return errors.New("give ids, flags that choose letters, or --all, and only one of these")
}
