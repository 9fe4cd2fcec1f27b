package client

import (
	"context"
	"errors"
	"fmt"
	"io"
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

func newDeadListCommand(flags *controlFlags) *cobra.Command {
	var rule, handler, output string
	cmd := &cobra.Command{
		Use:   "list [--rule NAME] [--handler NAME] [-o wide|json]",
		Short: "List dead letters, the oldest first",
		Long: `List dead letters, the oldest first. The ids are short: the other commands take them so, and
whole. The column SINCE THEN says "delivered" if a later event of the object has been delivered to
the same rule since informd started. So perhaps nothing is amiss any more.

The table fits the terminal. -o wide cuts nothing, and adds columns. -o json has everything.
` + whichDaemon,
		Args: cli.NoArguments,
	}
	choosingFlags(cmd, flags, &rule, &handler)
	outputFlag(cmd, &output, "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			letters, err := c.Letters(cmd.Context(), rule, handler)
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
			return writeLetters(out, letters, newShape(out, output), time.Now())
		})
	}
	return cmd
}

func choosingFlags(cmd *cobra.Command, flags *controlFlags, rule, handler *string) {
	cmd.Flags().StringVar(rule, "rule", "", "choose those of the rule `NAME`")
	completeFlag(cmd, "rule", flags.completer(1, ruleNames))
	cmd.Flags().StringVar(handler, "handler", "", "choose those of the handler `NAME`")
	completeFlag(cmd, "handler", flags.completer(1, handlerNames))
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
				return errors.New("give the id of one dead letter; informd dead list shows them")
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
			return writeLetter(cmd.OutOrStdout(), letter, time.Now())
		})
	}
	return cmd
}

func showSecretsFlag(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, "show-secrets", false, "show the values of Secrets instead of ***")
}

func writeLetter(w io.Writer, l control.Letter, now time.Time) error {
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
	var choice control.LetterChoice
	cmd := &cobra.Command{
		Use:   name + " ID…|--rule NAME|--handler NAME|--all",
		Short: short,
		Long: long + `
Choose them by id as informd dead list shows it, by rule, by handler, or take all of them. The command lists the letters that it
could not ` + name + `, handles the rest, and then ends with exit code 1.
` + whichDaemon,
		Args: func(_ *cobra.Command, args []string) error {
			choice.IDs = args
			return oneChoice(choice)
		},
		ValidArgsFunction: flags.completer(1000, letterIDs),
	}
	choosingFlags(cmd, flags, &choice.Rule, &choice.Handler)
	cmd.Flags().BoolVar(&choice.All, "all", false, "choose all of them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			var err error
			if len(choice.IDs) > 0 {
				if choice.IDs, err = fullIDs(cmd.Context(), c, choice.IDs); err != nil {
					return err
				}
			}
			outcome, err := act(c, cmd.Context(), choice)
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

// oneChoice checks that letters are chosen in exactly one way.
func oneChoice(c control.LetterChoice) error {
	ways := 0
	for _, chosen := range []bool{len(c.IDs) > 0, c.Rule != "", c.Handler != "", c.All} {
		if chosen {
			ways++
		}
	}
	switch ways {
	case 0:
		return errors.New(
			"which dead letters? Give their ids, or --rule NAME, --handler NAME or --all")
	case 1:
		return nil
	}
	return errors.New("give ids, --rule, --handler or --all, and only one of these")
}
