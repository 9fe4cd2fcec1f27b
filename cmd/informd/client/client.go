// Package client holds the commands that ask the running daemon over its control socket and show
// the answer. It knows package control, and nothing of the daemon.
package client

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/locate"
)

// NewCommands returns informd status, explain, events, plan, reload, get, eval, dead, rule and applied.
func NewCommands() []*cobra.Command {
	return []*cobra.Command{
		newStatusCommand(), newExplainCommand(), newEventsCommand(), newPlanCommand(), newReloadAllCommand(), newGetCommand(),
		newEvalCommand(), newDeadCommand(), newRuleCommand(), newAppliedCommand(),
	}
}

// controlFlags are the flags that say which daemon to ask.
type controlFlags struct {
	control, stateDir   string
	kubeconfig, context string
}

// addControlFlags adds the flags to cmd and its subcommands.
func addControlFlags(cmd *cobra.Command) *controlFlags {
	flags := new(controlFlags)
	f := cmd.PersistentFlags()
	f.StringVar(&flags.control, "control", "",
		"control `SOCKET` of the daemon; default: "+locate.ControlSocket+" in its state directory")
	f.StringVar(&flags.stateDir, "state-dir", "",
		"state `DIR` of the daemon; default: the one that informd run uses for the cluster")
	f.StringVar(&flags.kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE` of the daemon's cluster; default: the one kubectl would use")
	f.StringVar(&flags.context, "context", "",
		"context `NAME` in the kubeconfig; default: the current one")
	return flags
}

// whichDaemon ends the help of every command that asks the daemon.
const whichDaemon = `
The command finds the daemon by --control, else by --state-dir, else by the cluster that kubectl
would use. Only the user that informd runs as may ask it.`

// socket returns the path of the daemon's control socket.
func (f *controlFlags) socket() (string, error) {
	stateDir := f.stateDir
	if f.control == "" && stateDir == "" {
		cluster, err := locate.Cluster(f.kubeconfig, f.context)
		if err == nil {
			stateDir, err = locate.DefaultStateDir(cluster.Host)
		}
		if err != nil {
			return "", fmt.Errorf(
				"find the running informd: %w; or name its socket with --control SOCKET", err)
		}
	}
	socket := locate.SocketPath(f.control, stateDir)
	if socket == "" {
		return "", errors.New("with --state-dir none, informd run has a socket " +
			"only if you gave it --control: give the same --control here")
	}
	return socket, nil
}

// command returns informd's command with these arguments, for the same daemon, as one types it.
func (f *controlFlags) command(args ...string) string {
	words := []string{"informd"}
	for _, arg := range args {
		words = append(words, quoteWord(arg))
	}
	for _, flag := range []struct{ name, value string }{
		{"control", f.control}, {"state-dir", f.stateDir},
		{"kubeconfig", f.kubeconfig}, {"context", f.context},
	} {
		if flag.value != "" {
			words = append(words, "--"+flag.name, quoteWord(flag.value))
		}
	}
	return strings.Join(words, " ")
}

// resyncs matches the advice of the daemon that names a command. The daemon knows no flags.
var resyncs = regexp.MustCompile(`informd rule resync ([a-z0-9-]+)`)

// complete adds the flags that reach the daemon to the commands that its text advises.
func (f *controlFlags) complete(text string) string {
	return resyncs.ReplaceAllStringFunc(text, func(command string) string {
		return f.command(strings.Fields(command)[1:]...)
	})
}

// plainWord matches what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// quoteWord returns a word as a shell needs it.
func quoteWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ask calls do with a client of the daemon. If nobody listens on the socket, the error says what to
// do.
func (f *controlFlags) ask(do func(*control.Client) error) error {
	socket, err := f.socket()
	if err != nil {
		return cli.Failed(err)
	}
	err = do(control.NewClient(socket))
	if errors.Is(err, control.ErrNotRunning) {
		err = fmt.Errorf("%w: start it with informd run, "+
			"or say where it is with --control SOCKET or --state-dir DIR; "+
			"if it runs, its log says why it has no socket there", err)
	}
	if said, ok := errors.AsType[*control.Error](err); ok {
		err = errors.New(cli.Printable(said.Message)) // another program may have answered
	}
	if _, ok := errors.AsType[*cli.ExitError](err); err == nil || ok {
		return err
	}
	return cli.Failed(err)
}

// completionTime is how long the shell waits for names at most.
const completionTime = time.Second

// completer completes up to most names that the daemon knows. Without a daemon it silently
// completes nothing.
func (f *controlFlags) completer(
	most int, names func(context.Context, *control.Client) ([]string, error)) cobra.CompletionFunc {
	return func(
		cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		socket, err := f.socket()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		all, err := names(ctx, control.NewClient(socket))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(all, func(name string) bool {
			return !strings.HasPrefix(name, toComplete) || slices.Contains(args, name)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag completes the value of a flag with names.
func completeFlag(cmd *cobra.Command, flag string, names cobra.CompletionFunc) {
	complete := func(
		cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return names(cmd, nil, toComplete)
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag was just defined
	}
}

func sourceNames(ctx context.Context, c *control.Client) (names []string, err error) {
	status, err := c.Status(ctx)
	for _, s := range status.Sources {
		names = append(names, s.Name)
	}
	return names, err
}

func ruleNames(ctx context.Context, c *control.Client) (names []string, err error) {
	status, err := c.Status(ctx)
	for _, r := range status.Rules {
		names = append(names, r.Name)
	}
	return names, err
}

func handlerNames(ctx context.Context, c *control.Client) (names []string, err error) {
	status, err := c.Status(ctx)
	for _, h := range status.Handlers {
		names = append(names, h.Name)
	}
	return names, err
}

func letterIDs(ctx context.Context, c *control.Client) (ids []string, err error) {
	letters, err := c.Letters(ctx, "", "")
	for _, l := range letters {
		ids = append(ids, l.ID)
	}
	return ids, err
}
