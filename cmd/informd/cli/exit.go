// Package cli holds what informd's commands share: exit codes, signals, arguments, flags, and text
// for a terminal. It knows no single command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/printable"
)

// The exit codes.
const (
	ExitDone   = 0 // also after a signal
	ExitFailed = 1 // the run failed, or check found mistakes
	ExitUsage  = 2 // the command line is wrong, or run got a configuration with mistakes
)

// ExitError is an error that ends the process with a code. If Err is nil, the command has printed
// the reason already.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Failed makes err end the process with ExitFailed. An error without it is about the command line:
// ExitUsage.
func Failed(err error) error { return &ExitError{ExitFailed, err} }

// Execute runs one command line and returns its exit code. It prints errors to stderr, one line
// each. What commands print has \uXXXX in the place of characters that a terminal would act on, which
// changes nothing for readers of JSON. Commands escape ASCII's control characters themselves.
func Execute(
	ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	shown, said := printable.NewWriter(stdout), printable.NewWriter(stderr)
	defer func() { _, _ = shown.Flush(), said.Flush() }() // as the process ends
	return execute(ctx, root, args, shown, said)
}

func execute(
	ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	prepare(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	failure, ok := errors.AsType[*ExitError](err)
	if !ok { // from cobra, or from a command's Args: an unknown flag, a missing argument
		fmt.Fprintf(stderr, "informd: %v\nTry '%s --help'.\n", err, cmd.CommandPath())
		return ExitUsage
	}
	if failure.Err != nil { // joined errors take a line each
		for line := range strings.Lines(failure.Err.Error()) {
			fmt.Fprintf(stderr, "informd: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return failure.Code
}

// prepare silences cobra, whose words for errors Execute replaces. Our usage lines name the flags
// themselves.
func prepare(cmd *cobra.Command) {
	cmd.SilenceUsage, cmd.SilenceErrors, cmd.DisableFlagsInUseLine = true, true, true
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
}

// Show prints the result of a command to its standard output.
func Show(cmd *cobra.Command, format string, args ...any) error {
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), format, args...); err != nil {
		return Failed(err)
	}
	return nil
}
