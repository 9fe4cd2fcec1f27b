package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/applied"
	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler/nearest"
)

// newAppliedCommand returns informd applied.
func newAppliedCommand() *cobra.Command {
	return cli.NewGroup("applied", "List, adopt and prune what rules have applied", "",
		newAppliedListCommand(), newAppliedAdoptCommand(), newAppliedPruneCommand())
}

// whichRules ends the help of the commands about applied objects.
const whichRules = `
The command asks the API server, with your rights, for the objects of every resource with the label
that rules with prune put on what they apply, and leaves out those that only have the label. Rules
without prune leave no such label. Which rules there are, it asks the running daemon, or reads from the
manifests that -f names.

A rule that only another informd has counts as gone: nothing in the cluster says that it is there. If
several informds share the cluster, make sure that none of the others has it.`

// appliedFlags are the flags of the commands about applied objects.
type appliedFlags struct {
	*controlFlags
	paths []string
}

func addAppliedFlags(cmd *cobra.Command) *appliedFlags {
	f := &appliedFlags{controlFlags: addControlFlags(cmd)}
	cli.OptionalManifestFlag(cmd, &f.paths)
	return f
}

// ruleSet has the rules that there are, by their names and by their former names.
type ruleSet map[string]string

func (s ruleSet) add(name, former string) {
	s[name] = name
	if former != "" {
		s[former] = name
	}
}

// rules returns the rules that there are.
func (f *appliedFlags) rules(ctx context.Context) (rules ruleSet, err error) {
	rules = make(ruleSet)
	if len(f.paths) == 0 {
		err := f.ask(func(c *control.Client) error {
			status, err := c.Status(ctx)
			for _, r := range status.Rules {
				rules.add(r.Name, r.Former)
			}
			return err
		})
		if err != nil {
			return nil, cli.Failed(fmt.Errorf("which rules are there? %w; or name their manifests with -f",
				errors.Unwrap(err)))
		}
		return rules, nil
	}
	config, _, err := manifests.LoadForCluster(f.paths)
	if err != nil {
		return nil, cli.Failed(err)
	}
	for _, r := range config.Rules {
		rules.add(r.Name, r.Formerly)
	}
	return rules, nil
}

// find returns what a rule has applied, or all rules have if rule is empty. It prints what could not
// be listed; isWhole says that there was nothing of it.
func (f *appliedFlags) find(
	cmd *cobra.Command, rule string,
) (c *applied.Cluster, found []applied.Object, isWhole bool, err error) {
	config, err := locate.Cluster(f.kubeconfig, f.context)
	if err != nil {
		return nil, nil, false, cli.Failed(err)
	}
	c, err = applied.NewCluster(config)
	if err != nil {
		return nil, nil, false, cli.Failed(fmt.Errorf("set up the connection to %s: %w", config.Host, err))
	}
	found, unlisted, err := c.Find(cmd.Context(), rule)
	if err != nil {
		return nil, nil, false, cli.Failed(fmt.Errorf("list applied objects: %w", err))
	}
	for _, err := range unlisted {
		fmt.Fprintln(cmd.ErrOrStderr(), "not listed:", cli.Printable(err.Error()))
	}
	return c, found, len(unlisted) == 0, nil
}

var errNotWhole = errors.New("some resources could not be listed")

// ofRuleThatIsGone returns what a rule has applied that must be gone. It may be one that is called
// now what it will be adopted by.
func (f *appliedFlags) ofRuleThatIsGone(
	cmd *cobra.Command, rule, by string, rules ruleSet,
) (*applied.Cluster, []applied.Object, bool, error) {
	switch now := rules[rule]; {
	case now == rule:
		return nil, nil, false, cli.Failed(fmt.Errorf("there is a rule %s: what it has applied belongs to it", rule))
	case now != "" && now != by:
		return nil, nil, false, cli.Failed(fmt.Errorf("the rule %s is called %s now: what it has applied belongs to it",
			rule, now))
	}
	return f.find(cmd, rule)
}

// appliedTarget is a target as -o json prints it.
type appliedTarget struct {
	explain.Target
	Left bool `json:"left"` // the rule is gone
}

// The states of objects in the cluster that are none of the daemon's targets.
const (
	stateApplied = "applied"
	stateLeft    = "left"
)

// listFlags say what informd applied list shows, and how.
type listFlags struct {
	*appliedFlags
	rule, namespace, state string
	output                 string
}

func newAppliedListCommand() *cobra.Command {
	var l listFlags
	cmd := &cobra.Command{
		Use:   "list [--rule NAME] [-n NAMESPACE] [--state STATE] [-f PATH…] [-o json]",
		Short: "List what rules apply, what waits, and what rules that are gone have left",
		Long: `List the targets of rules' own actions: the objects in the cluster that rules with prune
own, and what other rules have yet to change. FOR is the object of the rule's source that asks for the
target.

STATE is asked: not tried yet. done: it is as the rule asks. waits: failed, and tried again at NEXT.
refused: failed for good. behind: another source object asked first, and owns it; LAST ERROR says which
one. dropped: no longer wanted, and about to be deleted.

The daemon knows these. What it does not know, the command looks for in the cluster. An object is left
if its rule is gone: nobody updates it, and nobody deletes it. informd applied adopt gives it to another
rule, informd applied prune deletes it. An object is applied if its rule is there, and the daemon was
not asked, or does not know it yet.

With -f, the command asks no daemon, and lists what is in the cluster alone. With --state and one of the
states that the daemon knows, it asks the daemon alone.
` + whichRules + `

Exit code 0: done. 1: something could not be listed, and stands on standard error. 2: the command line
is wrong.`,
		Args: cli.NoArguments,
	}
	l.appliedFlags = addAppliedFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&l.rule, "rule", "", "only of the rule `NAME`")
	f.StringVarP(&l.namespace, "namespace", "n", "", "only targets in the namespace `NAME`")
	states := append(control.TargetStates(), stateApplied, stateLeft)
	f.Var(&choice{&l.state, states}, "state", "only those in the state `"+strings.Join(states, "|")+"`")
	outputFlag(cmd, &l.output, "json")
	completeFlag(cmd, "rule", l.completer(1, ruleNames))
	complete := cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("state", complete); err != nil {
		panic(err) // the flag was just defined
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return l.run(cmd) }
	return cmd
}

func (l *listFlags) run(cmd *cobra.Command) error {
	isOfDaemon := slices.Contains(control.TargetStates(), l.state)
	if isOfDaemon && len(l.paths) > 0 {
		return fmt.Errorf("--state %s needs the daemon, and -f asks none", l.state)
	}
	rules, err := l.rules(cmd.Context())
	if err != nil {
		return err
	}
	found, err := l.targets(cmd, rules)
	if err != nil {
		return err
	}
	isWhole := true
	if !isOfDaemon {
		var more []applied.Object
		_, more, isWhole, err = l.find(cmd, l.rule)
		if err != nil && len(l.paths) > 0 {
			return err
		}
		if err != nil { // the daemon has said what it knows
			fmt.Fprintln(cmd.ErrOrStderr(), "not listed:", cli.Printable(err.Error()))
			isWhole = false
		}
		found = merged(found, inCluster(more, rules), rules)
	}
	found = slices.DeleteFunc(found, func(t appliedTarget) bool {
		return l.namespace != "" && t.Namespace != l.namespace || l.state != "" && t.State != l.state
	})
	if len(found) == 0 && isWhole && l.output == "" {
		return cli.Show(cmd, "%s\n", cli.Printable(l.emptyText(rules)))
	}
	if err := l.write(cmd.OutOrStdout(), found, time.Now()); err != nil {
		return err
	}
	if !isWhole {
		return cli.Failed(errNotWhole)
	}
	return nil
}

// targets returns the targets that the daemon knows, of a rule that there is or of all rules. Without
// a daemon there are none.
func (l *listFlags) targets(cmd *cobra.Command, rules ruleSet) (found []appliedTarget, err error) {
	if len(l.paths) > 0 || l.rule != "" && rules[l.rule] != l.rule {
		return nil, nil
	}
	err = l.ask(func(c *control.Client) error {
		all, err := c.Targets(cmd.Context(), control.TargetQuery{
			Rule: l.rule, Namespace: l.namespace,
		})
		for _, t := range all {
			found = append(found, appliedTarget{Target: t})
		}
		return err
	})
	return found, err
}

// inCluster returns objects in the cluster as targets that the daemon does not know.
func inCluster(found []applied.Object, rules ruleSet) (all []appliedTarget) {
	for _, o := range found {
		t := appliedTarget{Left: rules[o.Rule] == ""}
		t.Rule, t.Resource, t.State = o.Rule, object.ResourceName(o.Resource), stateApplied
		t.Namespace, t.Name, t.For = o.Namespace(), o.Name(), o.For()
		if t.Left {
			t.State = stateLeft
		}
		all = append(all, t)
	}
	return all
}

// merged returns the daemon's targets, and behind those of the same rule the objects in the cluster
// that are none of them. Objects of rules that are gone come last.
func merged(found, more []appliedTarget, rules ruleSet) []appliedTarget {
	type id struct{ rule, group, resource, namespace, name string }
	idOf := func(t *appliedTarget, rule string) id {
		parts := strings.Split(t.Resource, "/")
		group := ""
		if len(parts) == 3 {
			group = parts[0]
		}
		return id{rule, group, parts[len(parts)-1], t.Namespace, t.Name}
	}
	known := make(map[id]bool, len(found))
	order := make(map[string]int) // of the rules, from 1
	for i := range found {
		t := &found[i]
		if t.Part == "" {
			known[idOf(t, t.Rule)] = true
		}
		if order[t.Rule] == 0 {
			order[t.Rule] = len(order) + 1
		}
	}
	for i := range more {
		t := &more[i]
		if t.Left || !known[idOf(t, rules[t.Rule])] {
			found = append(found, *t)
		}
	}
	place := func(t *appliedTarget) int {
		if n := order[rules[t.Rule]]; n > 0 {
			return n
		}
		return math.MaxInt
	}
	slices.SortStableFunc(found, func(a, b appliedTarget) int {
		return cmp.Compare(place(&a), place(&b))
	})
	return found
}

// emptyText returns what the command says if its list is empty.
func (l *listFlags) emptyText(rules ruleSet) string {
	switch now := rules[l.rule]; {
	case l.rule != "" && now == "":
		names := slices.Sorted(maps.Keys(rules))
		guess := ""
		if near := nearest.Name(l.rule, names); near != "" {
			guess = "; did you mean " + near + "?"
		}
		return fmt.Sprintf("there is no rule %.100s, and none of that name has left anything%s",
			l.rule, guess)
	case l.namespace != "" || l.state != "":
		return "there is nothing of that kind"
	case l.rule != "" && now != l.rule:
		return fmt.Sprintf("the rule %s is called %s now, and nothing is left under its former name",
			l.rule, now)
	case l.rule != "":
		return fmt.Sprintf("the rule %s has applied nothing", l.rule)
	}
	return "no rule with prune has applied anything"
}

func (l *listFlags) write(out io.Writer, found []appliedTarget, now time.Time) error {
	if l.output == "json" {
		if found == nil {
			found = []appliedTarget{}
		}
		return writeDocument(out, l.output, found)
	}
	if len(found) == 0 {
		return nil
	}
	t := newTableWithin(out, width(out),
		"RULE", "STATE", "RESOURCE", "NAMESPACE", "NAME", "FOR", "NEXT", "LAST ERROR")
	for i := range found {
		one := &found[i].Target
		t.row(one.Rule, one.State, resourceOf(one), one.Namespace, one.Name, one.For,
			nextTry(one, now), whyNot(one))
	}
	return t.flush()
}

func newAppliedPruneCommand() *cobra.Command {
	var rule string
	var yes bool
	cmd := &cobra.Command{
		Use:   "prune --rule NAME [-f PATH…] [--yes]",
		Short: "Delete what a rule that is gone has applied",
		Long: `Delete the objects that a rule that is gone has applied. Without --yes, the command only says
which. It refuses a rule that there is: that prunes by itself. An object stays, and is named, if it has
changed since the command listed it, or if others apply it too: other rules, tools or people.
` + whichRules + `

Exit code 0: done. 1: something could not be listed or deleted. 2: the command line is wrong.`,
		Args: cli.NoArguments,
	}
	f := addAppliedFlags(cmd)
	cmd.Flags().StringVar(&rule, "rule", "", "the `NAME` of the rule that is gone")
	cmd.Flags().BoolVar(&yes, "yes", false, "delete them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if rule == "" {
			return errors.New("--rule is missing: name the rule that is gone")
		}
		rules, err := f.rules(cmd.Context())
		if err != nil {
			return err
		}
		c, found, isWhole, err := f.ofRuleThatIsGone(cmd, rule, "", rules)
		if err != nil {
			return err
		}
		return carryOut(cmd, found, isWhole, yes, deed{"deleted", alsoAppliedBy, func(o applied.Object) (string, error) {
			err := c.Delete(cmd.Context(), o)
			if o.IsHeld() {
				return " once its finalizers are gone", err
			}
			return "", err
		}})
	}
	return cmd
}

func newAppliedAdoptCommand() *cobra.Command {
	var from, to string
	var yes bool
	cmd := &cobra.Command{
		Use:   "adopt --from NAME --to NAME [-f PATH…] [--yes]",
		Short: "Give what a rule that is gone has applied to another rule",
		Long: `Make the objects that a rule that is gone has applied those of another rule: it updates them, and
prunes those that it does not apply. Do this after renaming a rule with prune that does not say
formerly, or to remove formerly at once. Without --yes, the command only says which. An object that has
changed since the command listed it stays as it is, and is named.

The other rule must be there. It prunes what it has adopted and does not want when it looks for what it
left: at its start.
` + whichRules + `

Exit code 0: done. 1: something could not be listed or changed. 2: the command line is wrong.`,
		Args: cli.NoArguments,
	}
	f := addAppliedFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the `NAME` of the rule that is gone")
	cmd.Flags().StringVar(&to, "to", "", "the `NAME` of the rule that gets the objects")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if from == "" || to == "" {
			return errors.New("--from or --to is missing: name the rule that is gone, and the other one")
		}
		rules, err := f.rules(cmd.Context())
		if err != nil {
			return err
		}
		switch now := rules[to]; {
		case now == "":
			return cli.Failed(fmt.Errorf("there is no rule %s", to))
		case now != to:
			return cli.Failed(fmt.Errorf("the rule %s is called %s now", to, now))
		}
		c, found, isWhole, err := f.ofRuleThatIsGone(cmd, from, to, rules)
		if err != nil {
			return err
		}
		nothing := func(applied.Object) string { return "" }
		return carryOut(cmd, found, isWhole, yes, deed{"adopted", nothing, func(o applied.Object) (string, error) {
			return "", c.Adopt(cmd.Context(), o, to)
		}})
	}
	return cmd
}

// alsoAppliedBy says who applies an object too, or returns "".
func alsoAppliedBy(o applied.Object) string {
	if others := o.Others(); len(others) > 0 {
		return "also applied by " + strings.Join(others, ", ")
	}
	return ""
}

// deed is what is done to objects.
type deed struct {
	done  string                                      // in one word
	stays func(applied.Object) string                 // why it is not done; "" if it is
	do    func(applied.Object) (more string, _ error) // more is a remark about it
}

// carryOut does something to objects, or says to which it would.
func carryOut(cmd *cobra.Command, found []applied.Object, isWhole, yes bool, to deed) error {
	failed, left := 0, 0
	for _, o := range found {
		var err error
		text := "would be " + to.done
		switch why := to.stays(o); {
		case why != "":
			left++
			text = "stays: " + why
		case yes:
			text, err = to.do(o)
			text = to.done + text
		}
		if cmd.Context().Err() != nil {
			return cli.Failed(context.Cause(cmd.Context()))
		}
		if err != nil {
			failed++
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cli.Printable(o.String()), cli.Printable(err.Error()))
			continue
		}
		if err := cli.Show(cmd, "%s: %s\n", cli.Printable(o.String()), cli.Printable(text)); err != nil {
			return err
		}
	}
	switch {
	case failed > 0:
		return cli.Failed(fmt.Errorf("%d of %d objects could not be %s", failed, len(found), to.done))
	case !isWhole:
		return cli.Failed(errNotWhole)
	case len(found) == 0:
		return cli.Show(cmd, "there is nothing that it has applied\n")
	case !yes && left < len(found):
		return cli.Show(cmd, "nothing was changed: repeat the command with --yes\n")
	}
	return nil
}
