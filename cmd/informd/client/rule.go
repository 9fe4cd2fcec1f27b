package client

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

func newRuleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rule",
		Short: "List, pause and resume rules of the running daemon",
		Long:  "List, pause and resume rules of the running daemon.\n" + whichDaemon,
		Args:  cli.Group,

		DisableFlagsInUseLine: true,

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := addControlFlags(cmd)
	cmd.AddCommand(newRuleListCommand(flags),
		newPauseCommand(flags, "pause", "Have a rule's deliveries wait",
			`Have a rule's deliveries wait, until informd rule resume. What is with the handler ends; changes are evaluated and wait as
they do for a handler that is away: merged, or one after the other, as the rule says, within the same bounds.
`, "paused: its deliveries wait", (*control.Client).Pause),
		newPauseCommand(flags, "resume", "Have a paused rule's deliveries go on",
			"Have a paused rule's deliveries go on, with what waited.\n", "resumed", (*control.Client).Resume),
	)
	return cmd
}

func newRuleListCommand(flags *controlFlags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list [-o json]",
		Short: "List the rules, as informd status shows them",
		Args:  cli.NoArguments,

		DisableFlagsInUseLine: true,
	}
	outputFlag(cmd, &output, "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			status, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				return writeDocument(cmd.OutOrStdout(), output, map[string]any{"items": status.Rules})
			}
			return writeRules(cmd.OutOrStdout(), status.Rules)
		})
	}
	return cmd
}

func newPauseCommand(flags *controlFlags, name, short, long, done string, do func(*control.Client, context.Context, string) error) *cobra.Command {
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

		DisableFlagsInUseLine: true,

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
