package client

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

func newRuleCommand() *cobra.Command {
	const about = "List, pause, resume, retry and resync rules of the running daemon"
	cmd := cli.NewGroup("rule", about, about+".\n"+whichDaemon)
	flags := addControlFlags(cmd)
	cmd.AddCommand(newRuleListCommand(flags),
		newPauseCommand(flags, "pause", "Stop delivering a rule's events for now",
			`Stop delivering a rule's events until informd rule resume. Deliveries that the handler
is working on finish. The rule goes on matching changes, and its events wait as they do when a
handler is down: merged or kept, as the rule's delivery says, within the same bounds.
`, "paused: its deliveries wait", (*control.Client).Pause),
		newPauseCommand(flags, "resume", "Deliver a paused rule's events again",
			"Deliver a paused rule's events again, those that waited first.\n",
			"resumed", (*control.Client).Resume),
		newRetryCommand(flags),
		newResyncCommand(flags),
	)
	return cmd
}

func newRuleListCommand(flags *controlFlags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list [-o wide|json]",
		Short: "List the rules, like informd status",
		Args:  cli.NoArguments,
	}
	outputFlag(cmd, &output, "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			status, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				document := map[string]any{"items": status.Rules}
				return writeDocument(cmd.OutOrStdout(), output, document)
			}
			out, now := cmd.OutOrStdout(), time.Now()
			as := newShape(out, output)
			if err := writeRules(out, status.Rules, flags, as, now); err != nil {
				return err
			}
			return writeProblems(out,
				problems(control.Status{Rules: status.Rules}, flags, now), as)
		})
	}
	return cmd
}

func newPauseCommand(
	flags *controlFlags, name, short, long, done string,
	do func(*control.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " NAME",
		Short: short,
		Long:  long + whichDaemon,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one rule; informd rule list shows them")
			}
			return nil
		},
		ValidArgsFunction: flags.completer(1, ruleNames),

		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.ask(func(c *control.Client) error {
				if err := do(c, cmd.Context(), args[0]); err != nil {
					return err
				}
				return cli.Show(cmd, "rule %s %s\n", args[0], done)
			})
		},
	}
}

func newRetryCommand(flags *controlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "retry RULE [OBJECT]",
		Short: "Try now what waits for a retry",
		Long: `Try now what failed and waits for a retry of a rule, instead of when its delay is over. Name
an object as NAMESPACE/NAME or NAME to try only its delivery. If a delivery fails again, its next
delay is as long as if it had waited. For dead letters, use informd dead retry.

It also evaluates the changes that informd has set aside because it died of them, for all rules that
miss them: informd status shows these.
` + whichDaemon,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return errors.New("name one rule, and an object of it or none; " +
					"informd rule list shows the rules")
			}
			return nil
		},
		ValidArgsFunction: flags.completer(1, ruleNames),

		RunE: func(cmd *cobra.Command, args []string) error {
			object := ""
			if len(args) == 2 {
				object = args[1]
			}
			return flags.ask(func(c *control.Client) error {
				retried, err := c.RetryRule(cmd.Context(), args[0], object)
				if err != nil {
					return err
				}
				if retried.Objects == 0 {
					return cli.Show(cmd, "nothing waits for a retry of rule %s\n", args[0])
				}
				return cli.Show(cmd, "rule %s: trying %d %s now\n", args[0], retried.Objects,
					cli.Plural(retried.Objects, "object"))
			})
		},
	}
}

func newResyncCommand(flags *controlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "resync RULE",
		Short: "Have a rule see all objects of its source now",
		Long: `Have a rule see all objects of its source as synced, now. Its when, count and group decide
about them as about any change. It is for a rule whose when or payload has changed: that alone
concerns later changes only. A rule without a source sees its next moment now.

The rule needs synced among its events, as it has by default. Changes go on meanwhile, in order. If
you end this command, or informd ends, before all objects are seen, the rest is left out.
` + whichDaemon,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one rule; informd rule list shows them")
			}
			return nil
		},
		ValidArgsFunction: flags.completer(1, ruleNames),

		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.ask(func(c *control.Client) error {
				resynced, err := c.Resync(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				n := resynced.Selected
				return cli.Show(cmd, "rule %s: %d %s selected as synced\n",
					args[0], n, cli.Plural(n, "object"))
			})
		},
	}
}
