package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/applied"
	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/engine/object"
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

// appliedObject is an object as -o json prints it.
type appliedObject struct {
	Rule      string `json:"rule"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Left      bool   `json:"left"` // the rule is gone
}

func newAppliedListCommand() *cobra.Command {
	var rule, output string
	cmd := &cobra.Command{
		Use:   "list [--rule NAME] [-f PATH…] [-o json]",
		Short: "List what rules have applied, also rules that are gone",
		Long: `List the objects in the cluster that rules with prune have applied. An object is left if its rule
is gone: nobody updates it, and nobody deletes it. informd applied adopt gives it to another rule,
informd applied prune deletes it.
` + whichRules + `

Exit code 0: done. 1: something could not be listed, and stands on standard error. 2: the command line
is wrong.`,
		Args: cli.NoArguments,
	}
	f := addAppliedFlags(cmd)
	cmd.Flags().StringVar(&rule, "rule", "", "only of the rule `NAME`")
	outputFlag(cmd, &output, "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		rules, err := f.rules(cmd.Context())
		if err != nil {
			return err
		}
		_, found, isWhole, err := f.find(cmd, rule)
		if err != nil {
			return err
		}
		if len(found) == 0 && isWhole && output == "" {
			if rule == "" {
				return cli.Show(cmd, "no rule with prune has applied anything\n")
			}
			return cli.Show(cmd, "the rule %s has applied nothing\n", rule)
		}
		if err := writeApplied(cmd, found, rules, output); err != nil {
			return err
		}
		if !isWhole {
			return cli.Failed(errNotWhole)
		}
		return nil
	}
	return cmd
}

func writeApplied(cmd *cobra.Command, found []applied.Object, rules ruleSet, output string) error {
	all := make([]appliedObject, 0, len(found))
	for _, o := range found {
		all = append(all, appliedObject{
			o.Rule, object.ResourceName(o.Resource), o.Namespace(), o.Name(), rules[o.Rule] == "",
		})
	}
	if output == "json" {
		return writeDocument(cmd.OutOrStdout(), output, all)
	}
	if len(all) == 0 {
		return nil
	}
	t := newTable(cmd.OutOrStdout(), "RULE", "STATE", "RESOURCE", "NAMESPACE", "NAME")
	for _, o := range all {
		state := "applied"
		if o.Left {
			state = "left"
		}
		t.row(o.Rule, state, o.Resource, o.Namespace, o.Name)
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
