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

// NewConformanceCommand returns informd handler check.
func NewConformanceCommand() *cobra.Command {
	var flags conformanceFlags
	cmd := &cobra.Command{
		Use:   "check [flags] BINARY [ARG…]",
		Short: "Check a handler against the contract for handlers, clause by clause",
		Long: `Check an executable, in any language, against the contract for handlers. The command
starts the executable many times, as informd run does but unconfined, sends it events of objects
that do not exist, interrupts it and kills it. It prints whether each clause of the contract holds,
and if not, why, with the end of the handler's log.

Give the handler a config with which it may handle events, such as one that names a test file or a
test server. Flags after BINARY belong to the handler. If the handler reads the cache, --cache names
a YAML file of sources by their names:

  pods:
    indexes: {byNode: object.spec.nodeName}
    objects:
    - {metadata: {namespace: shop, name: web-0}, spec: {nodeName: node-1}}

The command checks the actions that the handler asks for, and performs none.

Instead of BINARY, --address names a remote handler that is running, one for tests. The command does
not check how such a handler starts and ends.

Exit code 0: all clauses hold that can be checked from outside. 1: some do not. 2: the command line
is wrong.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && flags.remote.address == "":
				return errors.New("name the executable of a handler, and its arguments after it; " +
					"or the --address of a remote one")
			case len(args) > 0 && flags.remote.address != "":
				return errors.New("name either an executable or the --address of a remote handler")
			case flags.cache != "" && flags.remote.address != "":
				return errors.New(
					"--cache does not go with --address: remote handlers cannot read the cache")
			}
			return nil
		},
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
				if options.Remote == nil && flags.cache == "" {
					wantsCache = wantsCache || slices.ContainsFunc(r.Problems, speaksOfCache)
				}
				if err := cli.Show(cmd, "%s", describeResult(r, flags.verbose)); err != nil {
					return err
				}
			}
			if wantsCache {
				err := cli.Show(cmd, "the handler seems to read the cache, and there was none: "+
					"write one, and name it with --cache\n")
				if err != nil {
					return err
				}
			}
			switch {
			case ctx.Err() != nil:
				return cli.Failed(errors.New("interrupted: the check is incomplete"))
			case broken > 0:
				does := "clauses do"
				if broken == 1 {
					does = "clause does"
				}
				return cli.Failed(fmt.Errorf("%d %s not hold", broken, does))
			}
			return cli.Show(cmd, "ok: %d clauses hold\n", held)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&flags.config, "config", "",
		"`FILE` with a config that the handler accepts, in YAML or JSON; default: none")
	f.StringVar(&flags.badConfig, "bad-config", "",
		"`FILE` with a config that the handler must refuse; default: an unknown field")
	f.StringVar(&flags.event, "event", "", "`FILE` with an event that the handler handles, "+
		"as the log builtin writes events; default: an updated ConfigMap")
	f.StringArrayVar(&flags.env, "env", nil, "environment variable to pass on, "+
		"as `NAME` or NAME=VALUE; repeatable; default: PATH and HOME only")
	f.StringVar(&flags.cache, "cache", "",
		"`FILE` with the cache that the handler reads; default: it may read nothing")
	f.StringVar(&flags.remote.address, "address", "", "`ADDRESS` of a remote handler to check, "+
		"such as dns:///oncall.shop.svc:8443; needs the three files for TLS")
	f.StringVar(&flags.remote.ca, "tls-ca", "",
		"`FILE` with the authorities that sign the remote handler's certificate")
	f.StringVar(&flags.remote.cert, "tls-cert", "",
		"`FILE` with the certificate that the remote handler is shown")
	f.StringVar(&flags.remote.key, "tls-key", "", "`FILE` with the key of that certificate")
	f.StringVar(&flags.remote.serverName, "tls-server-name", "",
		"`NAME` that the remote handler's certificate must be for; default: the address's")
	f.DurationVar(&flags.timeout, "timeout", 10*time.Second,
		"how long the handler may take for an event, a `DURATION`")
	f.BoolVarP(&flags.verbose, "verbose", "v", false,
		"show the handler's log for clauses that hold, too")
	return cmd
}

// conformanceFlags are the flags of handler check.
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
	// a bare name is looked up in PATH
	if o.Remote == nil && strings.ContainsRune(command[0], filepath.Separator) {
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

// describeResult returns whether a clause holds, and the end of the handler's log if not.
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
