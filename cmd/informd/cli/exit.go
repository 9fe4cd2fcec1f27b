// Package cli is what informd's commands have in common: exit codes, signals, arguments, and text for a terminal. It
// knows no command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	ExitDone   = 0 // also after a signal
	ExitFailed = 1 // the run Failed, or check found mistakes
	ExitUsage  = 2 // the command line is wrong, or run was given a configuration with mistakes
)

// Execute runs one command line and returns its exit code.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	failure, ok := errors.AsType[*ExitError](err)
	if !ok { // cobra's own and its kind: an unknown command or flag, a missing argument
		fmt.Fprintf(stderr, "informd: %v\nTry '%s --help'.\n", err, cmd.CommandPath())
		return ExitUsage
	}
	if failure.Err != nil { // several are joined, a line each
		for line := range strings.Lines(failure.Err.Error()) {
			fmt.Fprintf(stderr, "informd: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return failure.Code
}

// ExitError ends the process with a code. A nil err has been reported already.
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

func Failed(err error) error { return &ExitError{ExitFailed, err} }

// Show prints what a command was asked for.
func Show(cmd *cobra.Command, format string, args ...any) error {
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), format, args...); err != nil {
		return Failed(err)
	}
	return nil
}
