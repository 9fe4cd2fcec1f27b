// Command informd runs declarative rules against a Kubernetes cluster. See README.md, or informd --help.
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

	// A handler's shim is this program, executed again.
	_ "github.com/informd/informd/plugins/host/shim/install"
)

// version is set by the linker.
var version = "unknown"

func main() {
	os.Exit(cli.Execute(context.Background(), newRoot(), os.Args[1:], os.Stdout, os.Stderr))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "informd",
		Short: "Deliver the changes in a Kubernetes cluster that rules select to handlers",
		Long: `informd watches the resources that Source manifests select, evaluates Rule manifests on each change, and delivers
what they select to handlers: processes of their own, in any language. Each change arrives in order per object, at
least once.

Start with:  informd check -f RULES    and then    informd run -f RULES`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cli.Group,

		DisableFlagsInUseLine: true,

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("informd {{.Version}}\n")
	root.AddCommand(daemon.NewRunCommand(version), offline.NewCheckCommand(version), newHandlerCommand(), newVersionCommand())
	root.AddCommand(client.NewCommands()...)
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil { // cobra's own; it would take any shell's name
		completion.Args = cli.Group
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

func newHandlerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handler",
		Short: "Work with handlers",
		Args:  cli.Group,

		DisableFlagsInUseLine: true,

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(client.NewReloadCommand(), offline.NewConformanceCommand(), offline.NewProtoCommand(), launch.NewServeCommand())
	return cmd
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.NoArguments,

		DisableFlagsInUseLine: true,

		RunE: func(cmd *cobra.Command, _ []string) error { return cli.Show(cmd, "informd %s\n", version) },
	}
}
