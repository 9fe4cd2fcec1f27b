package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NoArguments is for commands that take flags only.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup(manifestFlagName) != nil {
		return fmt.Errorf("%q is not a flag; manifests are given with -f", args[0])
	}
	return fmt.Errorf("%q: %s takes no arguments", args[0], cmd.CommandPath())
}

// Group is for commands that do nothing but hold others.
func Group(cmd *cobra.Command, args []string) error {
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

// ManifestFlag adds -f, which must be given.
func ManifestFlag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVarP(paths, manifestFlagName, "f", nil, "`PATH` of a manifest, or of a folder of them, read recursively; repeatable")
	if err := cmd.MarkFlagFilename(manifestFlagName, "yaml", "yml"); err != nil {
		panic(err) // the flag was just defined
	}
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

// ChoiceFlag adds a flag whose value must be one of some; its shell completion offers them.
func ChoiceFlag(cmd *cobra.Command, value *string, name, what, standard string, choices ...string) {
	cmd.Flags().StringVar(value, name, standard, fmt.Sprintf("%s: `%s`", what, strings.Join(choices, "|")))
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was just defined
	}
}
