package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NoArguments is the Args of commands that take flags only.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup(manifestFlagName) != nil {
		return fmt.Errorf("%q is not a flag; manifests are given with -f", args[0])
	}
	return fmt.Errorf("%q: %s takes no arguments", args[0], cmd.CommandPath())
}

// NewGroup returns a command that only holds others. By itself it prints its help.
func NewGroup(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short, Long: long}
	MakeGroup(group)
	group.AddCommand(commands...)
	return group
}

// MakeGroup makes cmd print its help, and refuse the name of a command that it does not hold.
func MakeGroup(cmd *cobra.Command) {
	cmd.Args = onlyCommands
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SetFlagErrorFunc(func(failed *cobra.Command, err error) error {
		if failed != cmd { // commands that it holds inherit this function
			return err
		}
		// The flag is that of the unknown command before it.
		return cmp.Or(onlyCommands(cmd, cmd.Flags().Args()), err)
	})
}

func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.SuggestionsMinimumDistance == 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	return fmt.Errorf("unknown command %q%s", args[0], didYouMean(cmd.SuggestionsFor(args[0])))
}

func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", strings.Join(names, " or "))
}

const manifestFlagName = "filename"

// ManifestFlag adds the flag -f, which is required.
func ManifestFlag(cmd *cobra.Command, paths *[]string) {
	OptionalManifestFlag(cmd, paths)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case len(*paths) == 0:
			return errors.New("-f is missing: name a manifest, or a folder of them")
		case slices.Contains(*paths, ""):
			return errors.New("-f is empty: name a manifest, or a folder of them")
		}
		return nil
	}
}

// OptionalManifestFlag adds the flag -f.
func OptionalManifestFlag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVarP(paths, manifestFlagName, "f", nil,
		"`PATH` of a manifest, or of a folder tree; repeatable")
	if err := cmd.MarkFlagFilename(manifestFlagName, "yaml", "yml"); err != nil {
		panic(err) // the flag was just defined
	}
}

// ChoiceFlag adds a flag that completes to one of the choices. It does not check the value: the
// caller does.
func ChoiceFlag(cmd *cobra.Command, value *string, name, what, standard string, choices ...string) {
	cmd.Flags().StringVar(value, name, standard,
		fmt.Sprintf("%s: `%s`", what, strings.Join(choices, "|")))
	complete := cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // the flag was just defined
	}
}
