package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
)

func newConformanceCommand() *cobra.Command {
	var flags conformanceFlags
	cmd := &cobra.Command{
		Use:   "check [flags] BINARY [ARG…]",
		Short: "Check an executable against the contract for handlers, clause by clause",
		Long: `Check an executable, in whatever language it is written, against the contract for handlers. It is started many times,
as informd run starts handlers, though not confined; it is sent events of objects that do not exist, interrupted, killed.
Of each clause of the contract a line says whether it holds, and where it does not, why, with the end of the handler's log.

Give it a config with which events may do their work: a file or a server for tests. Flags that follow BINARY are its own.

Exit code 0: every clause holds that can be told from outside. 1: some do not. 2: the command line is wrong.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name the executable of a handler, and its arguments after it")
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := flags.options(args)
			if err != nil {
				return err
			}
			ctx, stop := withSignals(cmd.Context(), nil)
			defer stop()
			var held, broken int
			for r := range handlertest.Check(ctx, options) {
				switch {
				case r.Holds():
					held++
				case r.NotChecked == "":
					broken++
				}
				if err := show(cmd, "%s", describeResult(r, flags.verbose)); err != nil {
					return err
				}
			}
			switch {
			case ctx.Err() != nil:
				return failed(errors.New("interrupted: not everything has been checked"))
			case broken > 0:
				return failed(fmt.Errorf("%d %s not hold", broken, map[bool]string{true: "clause does", false: "clauses do"}[broken == 1]))
			}
			return show(cmd, "ok: %d clauses hold\n", held)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&flags.config, "config", "", "`FILE` with a config that it accepts, in YAML or JSON; default: none")
	cmd.Flags().StringVar(&flags.badConfig, "bad-config", "", "`FILE` with one that it must refuse; default: an unknown field")
	cmd.Flags().StringVar(&flags.event, "event", "", "`FILE` with an event that it handles, as the log builtin writes them; default: an updated ConfigMap")
	cmd.Flags().StringArrayVar(&flags.env, "env", nil, "`NAME` of a variable to pass on, or NAME=VALUE; repeatable; default: PATH and HOME only")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 10*time.Second, "time limit of an event, a `DURATION`")
	cmd.Flags().BoolVarP(&flags.verbose, "verbose", "v", false, "show what it logs for clauses that hold, too")
	return cmd
}

// conformanceFlags are those of handler check.
type conformanceFlags struct {
	config, badConfig, event string
	env                      []string
	timeout                  time.Duration
	verbose                  bool
}

func (f *conformanceFlags) options(command []string) (o handlertest.Options, err error) {
	o.Command = command
	if strings.ContainsRune(command[0], filepath.Separator) { // else it is looked up in PATH
		if o.Command[0], err = filepath.Abs(command[0]); err != nil {
			return o, err
		}
	}
	if o.Timeout = f.timeout; o.Timeout <= 0 {
		return o, fmt.Errorf("--timeout %v: must be longer than 0", f.timeout)
	}
	for _, variable := range f.env {
		name, _, hasValue := strings.Cut(variable, "=")
		if name == "" {
			return o, fmt.Errorf("--env %q: want NAME or NAME=VALUE", variable)
		}
		if !hasValue {
			value, found := os.LookupEnv(name)
			if !found {
				return o, fmt.Errorf("--env %s: it is not set", name)
			}
			variable += "=" + value
		}
		o.Env = append(o.Env, variable)
	}
	if o.Config, err = readConfig("--config", f.config); err != nil {
		return o, err
	}
	if o.BadConfig, err = readConfig("--bad-config", f.badConfig); err != nil {
		return o, err
	}
	if f.event != "" {
		o.Event, err = eventsLike(f.event)
	}
	return o, err
}

// readConfig reads a config of a handler as JSON, if there is a file of it.
func readConfig(flag, path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return text, nil
}

// eventsLike makes events of other objects out of the one in a file.
func eventsLike(path string) (func(n int) handler.Event, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--event: %w", err)
	}
	var one handler.Event
	if err := json.Unmarshal(text, &one); err != nil {
		return nil, fmt.Errorf("--event: %s: %w: want a single event, as the log builtin writes them, a line each", path, err)
	}
	if one.Event == "" || one.Name == "" {
		return nil, fmt.Errorf("--event: %s: no event: it needs event and name at least", path)
	}
	return func(n int) handler.Event {
		ev := one
		ev.Attempt = 1
		ev.ID = fmt.Sprintf("%s-%d", one.ID, n)
		ev.Name = fmt.Sprintf("%s-%d", one.Name, n)
		ev.UID = fmt.Sprintf("%s-%d", one.UID, n)
		return ev
	}, nil
}

// describeResult says what became of a clause, with the log where it does not hold.
func describeResult(r handlertest.Result, verbose bool) string {
	var b strings.Builder
	word := "ok"
	switch {
	case r.NotChecked != "":
		word = "-"
	case !r.Holds():
		word = "FAIL"
	}
	fmt.Fprintf(&b, "%-6s%s\n", word, r.Clause)
	if r.NotChecked != "" {
		fmt.Fprintf(&b, "      not checked: %s\n", printable(r.NotChecked))
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(&b, "      %s\n", printable(problem))
	}
	log := r.Log
	if !verbose {
		if len(r.Problems) == 0 {
			return b.String()
		}
		log = log[max(0, len(log)-10):]
	}
	for _, line := range log {
		fmt.Fprintf(&b, "        | %s\n", visible(line))
	}
	return b.String()
}
