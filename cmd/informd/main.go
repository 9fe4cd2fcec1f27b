// Command informd runs declarative rules against a Kubernetes cluster. See README.md, or informd --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	// A handler's shim is this program, executed again.
	_ "github.com/informd/informd/plugins/host/shim/install"
)

// version is set by the linker.
var version = "unknown"

// The exit codes.
const (
	exitDone   = 0 // also after a signal
	exitFailed = 1 // the run failed, or check found mistakes
	exitUsage  = 2 // the command line is wrong, or run was given a configuration with mistakes
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// echo is for how long further signals are taken for the first one: timeout(1) and others signal a process and then its
// group.
const echo = 100 * time.Millisecond

// withSignals makes a context that ends with the first SIGINT or SIGTERM; a second one ends the process at once, but for
// last, which may be nil. Handler processes notice and end as well. stop gives the signals back.
func withSignals(ctx context.Context, last func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2) // two signals count; more are dropped
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped := make(chan struct{})
	go func() {
		for first := (time.Time{}); ; {
			select {
			case <-signals:
			case <-stopped:
				return
			}
			switch {
			case first.IsZero():
				first = time.Now()
				cancel()
			case time.Since(first) > echo:
				fmt.Fprintln(os.Stderr, "informd: second signal, ending at once")
				if last != nil {
					last()
				}
				os.Exit(exitFailed)
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(stopped)
		cancel()
	})
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	failure, ok := errors.AsType[*exitError](err)
	if !ok { // cobra's own and its kind: an unknown command or flag, a missing argument
		fmt.Fprintf(stderr, "informd: %v\nTry '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	}
	if failure.err != nil { // several are joined, a line each
		for line := range strings.Lines(failure.err.Error()) {
			fmt.Fprintf(stderr, "informd: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return failure.code
}

// exitError ends the process with a code. A nil err has been reported already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func failed(err error) error { return &exitError{exitFailed, err} }

// show prints what a command was asked for.
func show(cmd *cobra.Command, format string, args ...any) error {
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), format, args...); err != nil {
		return failed(err)
	}
	return nil
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
		Args:          aCommand,

		DisableFlagsInUseLine: true,

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("informd {{.Version}}\n")
	root.AddCommand(newRunCommand(), newCheckCommand(), newHandlerCommand(), newVersionCommand(),
		newStatusCommand(), newGetCommand(), newDeadCommand(), newRuleCommand())
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil { // cobra's own; it would take any shell's name
		completion.Args = aCommand
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,

		DisableFlagsInUseLine: true,

		RunE: func(cmd *cobra.Command, _ []string) error { return show(cmd, "informd %s\n", version) },
	}
}
