package offline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/plugins/handler/handlertest"
)

// NewConformanceCommand makes informd handler check.
func NewConformanceCommand() *cobra.Command {
	var flags conformanceFlags
	cmd := &cobra.Command{
		Use:   "check [flags] BINARY [ARG…]",
		Short: "Check a handler against the contract for handlers, clause by clause",
		Long: `Check an executable, in whatever language it is written, against the contract for handlers. It is started many times,
as informd run starts handlers, though not confined; it is sent events of objects that do not exist, interrupted, killed.
Of each clause of the contract a line says whether it holds, and where it does not, why, with the end of the handler's log.

Give it a config with which events may do their work: a file or a server for tests. Flags that follow BINARY are its own.
A handler that reads the cache finds in it what --cache says; a file of sources by their names:

  pods:
    indexes: {byNode: object.spec.nodeName}
    objects:
    - {metadata: {namespace: shop, name: web-0}, spec: {nodeName: node-1}}

What actions it asks for is looked at, and done by nobody.

In the place of BINARY, --address names a remote handler that runs already, one for tests: of that it is not checked how it
starts and ends.

Exit code 0: every clause holds that can be told from outside. 1: some do not. 2: the command line is wrong.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && flags.remote.address == "":
				return errors.New("name the executable of a handler, and its arguments after it; or the --address of a remote one")
			case len(args) > 0 && flags.remote.address != "":
				return errors.New("name either an executable or the --address of a remote handler")
			case flags.cache != "" && flags.remote.address != "":
				return errors.New("--cache does not go with --address: remote handlers have no cache to read")
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := flags.options(args)
			if err != nil {
				return err
			}
			ctx, stop := cli.WithSignals(cmd.Context(), nil)
			defer stop()
			var held, broken int
			var wantsCache bool
			for r := range handlertest.Check(ctx, options) {
				switch {
				case r.Holds():
					held++
				case r.NotChecked == "":
					broken++
				}
				wantsCache = wantsCache || options.Remote == nil && flags.cache == "" && slices.ContainsFunc(r.Problems, speaksOfCache)
				if err := cli.Show(cmd, "%s", describeResult(r, flags.verbose)); err != nil {
					return err
				}
			}
			if wantsCache {
				if err := cli.Show(cmd, "it reads the cache, it seems, and there was none: make one up, and name it with --cache\n"); err != nil {
					return err
				}
			}
			switch {
			case ctx.Err() != nil:
				return cli.Failed(errors.New("interrupted: not everything has been checked"))
			case broken > 0:
				return cli.Failed(fmt.Errorf("%d %s not hold", broken, map[bool]string{true: "clause does", false: "clauses do"}[broken == 1]))
			}
			return cli.Show(cmd, "ok: %d clauses hold\n", held)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&flags.config, "config", "", "`FILE` with a config that it accepts, in YAML or JSON; default: none")
	cmd.Flags().StringVar(&flags.badConfig, "bad-config", "", "`FILE` with one that it must refuse; default: an unknown field")
	cmd.Flags().StringVar(&flags.event, "event", "", "`FILE` with an event that it handles, as the log builtin writes them; default: an updated ConfigMap")
	cmd.Flags().StringArrayVar(&flags.env, "env", nil, "`NAME` of a variable to pass on, or NAME=VALUE; repeatable; default: PATH and HOME only")
	cmd.Flags().StringVar(&flags.cache, "cache", "", "`FILE` with what it finds when it reads the cache; default: it may read nothing")
	cmd.Flags().StringVar(&flags.remote.address, "address", "", "check the remote handler at `ADDRESS`, as dns:///oncall.shop.svc:8443, with the files for TLS:")
	cmd.Flags().StringVar(&flags.remote.ca, "tls-ca", "", "`FILE` with the authorities of its certificate")
	cmd.Flags().StringVar(&flags.remote.cert, "tls-cert", "", "`FILE` with the certificate that it is shown")
	cmd.Flags().StringVar(&flags.remote.key, "tls-key", "", "`FILE` with its key")
	cmd.Flags().StringVar(&flags.remote.serverName, "tls-server-name", "", "`NAME` that its certificate must be for; default: the address's")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 10*time.Second, "time limit of an event, a `DURATION`")
	cmd.Flags().BoolVarP(&flags.verbose, "verbose", "v", false, "show what it logs for clauses that hold, too")
	return cmd
}

// conformanceFlags are those of handler check.
type conformanceFlags struct {
	config, badConfig, event, cache string
	env                             []string
	timeout                         time.Duration
	verbose                         bool
	remote                          remoteFlags
}

func (f *conformanceFlags) options(command []string) (o handlertest.Options, err error) {
	if o.Remote, err = f.remote.spec(); err != nil {
		return o, err
	}
	o.Command = command
	if o.Remote == nil && strings.ContainsRune(command[0], filepath.Separator) { // else it is looked up in PATH
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
	if o.Cache, err = readCache(f.cache); err != nil {
		return o, fmt.Errorf("--cache: %w", err)
	}
	if f.event != "" {
		o.Event, err = eventsLike(f.event)
	}
	return o, err
}

func speaksOfCache(problem string) bool { return strings.Contains(problem, "cache") }

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
		fmt.Fprintf(&b, "      not checked: %s\n", cli.Printable(r.NotChecked))
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(&b, "      %s\n", cli.Printable(problem))
	}
	log := r.Log
	if !verbose {
		if len(r.Problems) == 0 {
			return b.String()
		}
		log = log[max(0, len(log)-10):]
	}
	for _, line := range log {
		fmt.Fprintf(&b, "        | %s\n", cli.Visible(line))
	}
	return b.String()
}
