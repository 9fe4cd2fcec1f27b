package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/manifests"
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
user, limits, sandbox, files, network and access. Variables come from the daemon's environment.
informd reload takes up all other changes, to this manifest or any other.
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
			if err != nil {
				return reported(cmd, err)
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

// reported prints the report of an error, and returns the error.
func reported(cmd *cobra.Command, err error) error {
	if said, ok := errors.AsType[*control.Error](err); ok {
		for line := range strings.Lines(said.Report) {
			fmt.Fprintln(cmd.ErrOrStderr(), cli.Visible(line))
		}
	}
	return err
}

// newReloadAllCommand returns informd reload.
func newReloadAllCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the daemon take up changed manifests, without a restart",
		Long: `Have the running daemon read its manifests again and take up what has changed. To each
rule that means what a restart with the new manifests would mean, but nothing else is touched:
informers that stay do not list again, and rules and handlers that have not changed go on.

If anything is wrong with the manifests, nothing changes, and the exit code is 1. So it is if a
handler that is new or has changed refuses its config, or if one does not start that is to replace
a handler that works. SIGHUP does the same, and informd run --watch does it by itself.
` + whichDaemon,
		Args: cli.NoArguments,
	}
	flags := addControlFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			done, err := c.Reload(cmd.Context())
			if err != nil {
				return reported(cmd, err)
			}
			var lines []string
			for _, r := range done.Renamed {
				lines = append(lines, fmt.Sprintf("rule %s, formerly %s, keeps what it had", r.Name, r.Former))
			}
			for _, kind := range []struct {
				name string
				of   control.Changes
			}{{"rule", done.Rules}, {"handler", done.Handlers}, {"metric", done.Metrics}} {
				for _, change := range []struct {
					what  string
					names []string
				}{{"is new", kind.of.Added}, {"changed", kind.of.Changed}, {"is gone", kind.of.Gone}} {
					for _, name := range change.names {
						lines = append(lines, fmt.Sprintf("%s %s %s", kind.name, name, change.what))
					}
				}
			}
			if len(lines) == 0 {
				lines = append(lines, "nothing has changed")
			}
			for _, note := range done.Notes {
				lines = append(lines, cli.Printable(flags.complete(note)))
			}
			return cli.Show(cmd, "%s\n", strings.Join(lines, "\n"))
		})
	}
	return cmd
}

// newPlanCommand returns informd plan.
func newPlanCommand() *cobra.Command {
	var paths []string
	var output string
	cmd := &cobra.Command{
		Use:   "plan [-f PATH…] [-o json]",
		Short: "Show what a reload of the running daemon would change",
		Long: `Ask the running daemon what informd reload would change now, and change nothing. The counts
of objects are those of the daemon's caches, before when and events of the rules. If informd reload
would refuse the manifests or the config of a builtin handler, the exit code is 1.

With -f, the manifests are those at PATH, in place of those that the daemon was started with.
Whether handlers accept their config is then left to informd check.
` + whichDaemon,
		Args: cli.NoArguments,
	}
	flags := addControlFlags(cmd)
	cli.OptionalManifestFlag(cmd, &paths)
	outputFlag(cmd, &output, "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var files []control.File
		if len(paths) > 0 {
			read, err := manifests.Read(paths)
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			for _, f := range read {
				files = append(files, control.File{Path: f.Path, Data: f.Data})
			}
		}
		return flags.ask(func(c *control.Client) error {
			planned, err := c.Plan(cmd.Context(), files)
			if err != nil {
				return reported(cmd, err)
			}
			if output == "json" {
				return writeDocument(cmd.OutOrStdout(), output, planned)
			}
			return cli.Show(cmd, "%s\n", flags.complete(strings.Join(planLines(planned), "\n")))
		})
	}
	return cmd
}

// planLines returns a plan in words.
func planLines(p control.Planned) (lines []string) {
	if p.Problem != "" {
		lines = append(lines, "a reload would be refused: "+cli.Printable(p.Problem))
	}
	for _, name := range p.Informers.Added {
		lines = append(lines, "informer begins, and lists: "+cli.Printable(name))
	}
	for _, name := range p.Informers.Changed {
		lines = append(lines, "informer lists again, to keep more of its objects: "+cli.Printable(name))
	}
	for _, name := range p.Informers.Gone {
		lines = append(lines, "informer ends: "+cli.Printable(name))
	}
	for _, r := range p.Rules {
		name := r.Name
		if r.Former != "" {
			name += fmt.Sprintf(", formerly %s,", r.Former)
		}
		lines = append(lines, fmt.Sprintf("rule %s %s", name, r.Text))
	}
	for _, change := range []struct {
		what  string
		names []string
	}{
		{"is started", p.Handlers.Added}, {"is started anew", p.Handlers.Changed},
		{"is ended", p.Handlers.Gone},
	} {
		for _, name := range change.names {
			lines = append(lines, fmt.Sprintf("handler %s %s", name, change.what))
		}
	}
	for _, change := range []struct {
		what  string
		names []string
	}{{"is new", p.Metrics.Added}, {"begins anew", p.Metrics.Changed}, {"is gone", p.Metrics.Gone}} {
		for _, name := range change.names {
			lines = append(lines, fmt.Sprintf("metric %s %s", name, change.what))
		}
	}
	if len(lines) == 0 {
		lines = append(lines, "nothing would change")
	}
	if r := p.Rights; r != nil && r.Unknown != "" {
		lines = append(lines, "not known which rights would be missing: "+cli.Printable(r.Unknown))
	} else if r != nil && r.Missing > 0 {
		lines = append(lines, fmt.Sprintf("informd would lack %d %s of %d; these grant them:",
			r.Missing, cli.Plural(r.Missing, "right"), r.Needed))
		for _, line := range r.Lines {
			lines = append(lines, cli.Printable(line))
		}
	}
	return lines
}
