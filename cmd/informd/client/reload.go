package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

// NewReloadCommand returns informd handler reload.
func NewReloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload NAME",
		Short: "Restart a handler with its current manifest, without losing a delivery",
		Long: `Restart a handler of the running daemon with its current manifest and program. No
delivery is lost, repeated or out of order.

The daemon reads its manifests again and starts the new process beside the old one. The new process
must describe itself, accept its config and be healthy. Then the old one answers the events it has,
the new one takes over, and the old one ends. If any of that fails, the old process goes on and the
exit code is 1. If you end this command before the new process begins to take over, the daemon calls
the reload off.

A reload applies these fields of the handler's manifest: command, builtin, sha256, env, config,
user, limits, sandbox, files, network and access. Variables come from the daemon's environment. All
other changes, to this manifest or any other, wait until the daemon restarts.
` + whichDaemon,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one handler; informd status shows them")
			}
			return nil
		},
	}
	flags := addControlFlags(cmd)
	cmd.ValidArgsFunction = flags.completer(1, handlerNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return flags.ask(func(c *control.Client) error {
			reloaded, err := c.ReloadHandler(cmd.Context(), args[0])
			if said, ok := errors.AsType[*control.Error](err); ok {
				for line := range strings.Lines(said.Report) {
					fmt.Fprintln(cmd.ErrOrStderr(), cli.Visible(line))
				}
			}
			if err != nil {
				return err
			}
			taken := fmt.Sprintf("handler %s reloaded: process %d has taken over",
				args[0], reloaded.PID)
			lines := []string{taken}
			for _, note := range reloaded.Notes {
				lines = append(lines, cli.Printable(note))
			}
			return cli.Show(cmd, "%s\n", strings.Join(lines, "\n"))
		})
	}
	return cmd
}
