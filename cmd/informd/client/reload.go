package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

// NewReloadCommand makes informd handler reload.
func NewReloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload NAME",
		Short: "Have a handler of the running daemon started anew, with no delivery lost",
		Long: `Have a handler of the running daemon started anew, as its manifest and its program are by now, with no delivery lost,
repeated or out of order.

The daemon reads its manifests again. The new process is started beside the old one, describes itself, accepts its
config and is healthy before anything goes to it; when what is with the old one has been answered, it takes over and the
old one ends. If any of that fails, the old one goes on, and the exit code is 1. Until it has begun to take over, the
end of this command calls it off.

It takes up of the manifest: command, builtin, sha256, env, config, user, limits, sandbox, files, network and access;
variables come from the environment that the daemon has. Everything else, in this manifest and in others, waits for the daemon's
next start.
` + whichDaemon,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one handler; informd status shows them")
			}
			return nil
		},

		DisableFlagsInUseLine: true,
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
			lines := []string{fmt.Sprintf("handler %s reloaded: process %d has taken over", args[0], reloaded.PID)}
			for _, note := range reloaded.Notes {
				lines = append(lines, cli.Printable(note))
			}
			return cli.Show(cmd, "%s\n", strings.Join(lines, "\n"))
		})
	}
	return cmd
}
