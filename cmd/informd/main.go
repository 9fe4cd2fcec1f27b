// Command informd runs declarative rules against a Kubernetes cluster. See README.md, or informd
// --help.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/client"
	"github.com/informd/informd/cmd/informd/daemon"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/cmd/informd/offline"
	"github.com/informd/informd/cmd/informd/rbac"
	"github.com/informd/informd/cmd/informd/recording"
	"github.com/informd/informd/cmd/informd/ruletest"
	"github.com/informd/informd/cmd/informd/schemas/served"
	"github.com/informd/informd/cmd/informd/trial"

	// Schedules name time zones, which an image without files does not have.
	_ "time/tzdata"

	// A handler's shim is this program, executed again.
	_ "github.com/informd/informd/plugins/host/shim/install"
)

// version is set by the linker.
var version = "unknown"

func main() {
	os.Exit(cli.Execute(context.Background(), newRoot(), os.Args[1:], os.Stdout, os.Stderr))
}

func newRoot() *cobra.Command {
	root := cli.NewGroup("informd",
		"Deliver the changes in a Kubernetes cluster that rules select to handlers",
		`informd watches the resources that your Source manifests select, evaluates your Rule
manifests on every change, and delivers the changes they select to handlers. A handler is a process
of its own, in any language. It gets the changes of one object in order, each at least once.

Start with:  informd check -f RULES    and then    informd run -f RULES`,
		daemon.NewRunCommand(version),
		offline.NewCheckCommand(version),
		served.NewCommand(version),
		rbac.NewCommand(version),
		ruletest.NewCommand(),
		recording.NewRecordCommand(version),
		recording.NewReplayCommand(),
		cli.NewGroup("handler", "Work with handlers", "",
			client.NewReloadCommand(), trial.NewTryCommand(version),
			trial.NewConformanceCommand(version),
			offline.NewProtoCommand(), launch.NewServeCommand()),
		client.NewClusterCommand(daemon.NewAdoptCommand(version), daemon.NewRecoverCommand(version)),
		offline.NewCertsCommand(),
		newVersionCommand())
	root.AddCommand(client.NewCommands()...)
	root.Version = version
	root.SetVersionTemplate("informd {{.Version}}\n")
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		cli.MakeGroup(completion) // cobra's own would accept the name of any shell
	}
	return root
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Show(cmd, "informd %s\n", version)
		},
	}
}
