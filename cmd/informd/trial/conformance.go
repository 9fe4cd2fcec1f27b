package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/config"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
)

// NewConformanceCommand returns informd handler check.
func NewConformanceCommand(version string) *cobra.Command {
	var flags conformanceFlags
	cmd := &cobra.Command{
		Use:   "check [flags] [COMMAND [ARG…]]",
		Short: "Check a handler against the contract for handlers, clause by clause",
		Long: `Check an executable, in any language, against the contract for handlers. The command
starts the executable many times, as informd run does but unconfined, sends it events of objects
that do not exist, interrupts it and kills it. It prints whether each clause of the contract holds,
and if not, why, with the end of the handler's log. It stops after a clause that explains the
others: a handler that does not start, or does not answer an event. A clause takes at most a minute,
and so does a check in which one does not hold; --clause then checks one of those that are left.

Give the handler a config with which it may handle events, such as one that names a test file or a
test server. Flags after COMMAND belong to the handler. --cache and --event are as for informd
handler try.

With -f, the handler is the manifest's: its command, config and env. The command first runs it
confined as the manifest says, and sends it one event. The handler reads only the sources that
access.read names, and must not ask for an action that access.write does not allow. COMMAND takes
the place of the manifest's command.

The command checks the actions that the handler asks for, and performs none.

Instead of COMMAND, --address names a remote handler that is running, one for tests. The command
does not check how such a handler starts and ends.

Exit code 0: all clauses hold that can be checked from outside. 1: some do not. 2: the command line
is wrong.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && flags.remote.address == "" && len(flags.manifests) == 0:
				return errors.New("name the executable of a handler, and its arguments after it; " +
					"or its manifest with -f; or the --address of a remote one")
			case len(args) > 0 && flags.remote.address != "":
				return errors.New("name either an executable or the --address of a remote handler")
			case flags.cache != "" && flags.remote.address != "":
				return errors.New(
					"--cache does not go with --address: remote handlers cannot read the cache")
			case len(flags.manifests) > 0 && flags.remote.address != "":
				return errors.New(
					"name either manifests with -f or the --address of a remote handler")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := flags.subject(cmd, args)
			if err != nil {
				return err
			}
			options, err := flags.options(cmd, s)
			if err != nil {
				return err
			}
			ctx, stop := cli.WithSignals(cmd.Context(), nil)
			defer stop()
			c := checked{verbose: flags.verbose || flags.debug}
			if err := flags.check(ctx, cmd, s, options, version, &c); err != nil {
				return err
			}
			if c.isNoHandler {
				if err := cli.Show(cmd, "%s\n", scriptHint); err != nil {
					return err
				}
			}
			if c.wantsCache && options.Remote == nil && s.cache == nil {
				err := cli.Show(cmd, "the handler seems to read the cache, and there was none: "+
					"write one, and name it with --cache\n")
				if err != nil {
					return err
				}
			}
			switch {
			case ctx.Err() != nil:
				return cli.Failed(errors.New("interrupted: the check is incomplete"))
			case c.broken > 0:
				does := "clauses do"
				if c.broken == 1 {
					does = "clause does"
				}
				return cli.Failed(fmt.Errorf("%d %s not hold", c.broken, does))
			}
			return cli.Show(cmd, "ok: %d %s\n", c.held, holds(c.held))
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.badConfig, "bad-config", "",
		"`FILE` with a config that the handler must refuse; default: an unknown field")
	f.StringVar(&flags.event, "event", "", "`FILE` with an event that the handler handles, "+
		"or - for standard input; default: a made-up one")
	f.StringVar(&flags.only, "clause", "", "check only the clause `NAME`, or the one that has "+
		"this text in its name; default: all")
	f.BoolVar(&flags.debug, "debug", false, "no time limits and no health checks, as for a "+
		"debugger; one event at a time; show the log")
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

func holds(n int) string {
	if n == 1 {
		return "clause holds"
	}
	return "clauses hold"
}

// conformanceFlags are the flags of handler check.
type conformanceFlags struct {
	subjectFlags
	badConfig string
	only      string // of a clause
	timeout   time.Duration
	verbose   bool
	remote    remoteFlags
}

func (f *conformanceFlags) options(
	cmd *cobra.Command, s subject,
) (o handlertest.Options, err error) {
	if o.Remote, err = f.remote.spec(); err != nil {
		return o, err
	}
	if s.Remote != nil && o.Remote == nil {
		o.Remote = &handlertest.RemoteHandler{
			Host: s.Remote.Host, Port: s.Remote.Port, DNS: s.Remote.DNS,
			CA: s.Remote.CA, Cert: s.Remote.Cert, Key: s.Remote.Key,
			ServerName: s.Remote.ServerName,
		}
	}
	if o.Remote == nil {
		spec, err := s.spec()
		if err != nil {
			return o, err
		}
		o.Command, o.Dir = append([]string{spec.Path}, spec.Args...), spec.Dir
	}
	if o.Timeout = f.timeout; o.Timeout <= 0 {
		return o, fmt.Errorf("--timeout %v: must be longer than 0", f.timeout)
	}
	o.Env, o.Config, o.Debug = s.environment(), s.Config, f.debug
	if o.BadConfig, err = readConfig("--bad-config", f.badConfig); err != nil {
		return o, err
	}
	if o.Cache = s.cache.forCheck(s.readable()); o.Remote != nil {
		o.Cache = nil
	}
	if s.manifests != nil {
		o.Allow = func(ev handler.Event, a handler.Action) error {
			if err := s.refuses(&ev, []handler.Action{a}); err != nil {
				return errors.New(strings.TrimPrefix(err.Error(), "rejected: actions[0]: "))
			}
			return nil
		}
	}
	events, _, err := s.events(f.event, cmd.InOrStdin())
	if err != nil {
		return o, fmt.Errorf("--event: %w", err)
	}
	o.Event = like(events[0].Event)
	o.Only, err = clauseNamed(f.only, append(handlertest.Clauses(), asManifestSays))
	return o, err
}

// clauseNamed returns the name of the clause that has text in its name; "" for all.
func clauseNamed(text string, names []string) (string, error) {
	var found []string
	for _, name := range names {
		if name == text {
			return name, nil
		}
		if strings.Contains(name, text) {
			found = append(found, name)
		}
	}
	switch {
	case text == "":
		return "", nil
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		found = names
	}
	return "", fmt.Errorf("--clause %q: want one of\n  %s", text, strings.Join(found, "\n  "))
}

// like returns a function that makes events of other objects out of one.
func like(one handler.Event) func(n int) handler.Event {
	return func(n int) handler.Event {
		ev := one
		ev.Attempt = 1
		ev.ID = fmt.Sprintf("%s-%d", one.ID, n)
		ev.Name = fmt.Sprintf("%s-%d", one.Name, n)
		ev.UID = fmt.Sprintf("%s-%d", one.UID, n)
		if last := len(one.Items) - 1; last >= 0 {
			newest := ev
			newest.Attached, newest.Items = nil, nil
			ev.Items = append(one.Items[:last:last], newest)
		}
		return ev
	}
}

// checked is what a check has found so far.
type checked struct {
	verbose      bool
	held, broken int
	wantsCache   bool // a problem speaks of the cache
	isNoHandler  bool // a problem is that of a program that is no handler
}

// show prints a result and counts it.
func (c *checked) show(cmd *cobra.Command, r handlertest.Result) error {
	switch {
	case r.Holds():
		c.held++
	case r.NotChecked == "":
		c.broken++
	}
	c.isNoHandler = c.isNoHandler || slices.ContainsFunc(r.Problems, isNoHandler)
	c.wantsCache = c.wantsCache || slices.ContainsFunc(r.Problems, speaksOfCache)
	return cli.Show(cmd, "%s", describeResult(r, c.verbose))
}

// asManifestSays is the clause that is checked with -f alone.
const asManifestSays = "works as its manifest says"

// check checks the clauses and prints the results.
func (f *conformanceFlags) check(
	ctx context.Context, cmd *cobra.Command, s subject, o handlertest.Options, version string,
	c *checked,
) error {
	if s.manifests != nil && o.Remote == nil && (o.Only == "" || o.Only == asManifestSays) {
		r := f.checkConfined(ctx, s, o, version)
		if ctx.Err() != nil {
			return nil
		}
		if err := c.show(cmd, r); err != nil || o.Only != "" {
			return err
		}
	}
	if o.Only == asManifestSays {
		return errors.New("--clause " + asManifestSays + ": needs -f")
	}
	last, isNone := "", false
	for r := range handlertest.Check(ctx, o) {
		last = r.Clause
		isNone = isNone || slices.ContainsFunc(r.Problems, isNoHandler)
		if err := c.show(cmd, r); err != nil {
			return err
		}
	}
	if isNone {
		cmd.PrintErrln(scriptHint)
	}
	names := handlertest.Clauses()
	if left := len(names) - 1 - slices.Index(names, last); left > 0 && o.Only == "" &&
		ctx.Err() == nil {
		return cli.Show(cmd, "the %d clauses after this one are not checked: "+
			"they would fail for the same reason\n", left)
	}
	return nil
}

// checkConfined runs the handler as informd run would, and sends it one event.
func (f *conformanceFlags) checkConfined(
	ctx context.Context, s subject, o handlertest.Options, version string,
) (r handlertest.Result) {
	r.Clause = asManifestSays
	var log strings.Builder
	fail := func(err error) handlertest.Result {
		r.Problems = []string{err.Error()}
		if text := strings.TrimRight(log.String(), "\n"); text != "" {
			r.Log = strings.Split(text, "\n")
		}
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	folders, err := launch.NewFolders([]config.Handler{s.Handler}, version)
	if err != nil {
		return fail(err)
	}
	defer folders.Remove()
	s.Timeout = o.Timeout
	t := tryFlags{subjectFlags: f.subjectFlags}
	runs, err := t.host(s, folders, &log)
	if err != nil {
		return fail(err)
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = runs.Run(running) // always nil
	}()
	work := func() error {
		if err := awaitRunning(ctx, runs, false); err != nil {
			return err
		}
		ev, _ := s.madeUpEvent() // one that its rule does not want will do
		if o.Event != nil {
			ev = o.Event(0)
		}
		answer, err := runs.Handle(ctx, ev)
		if err == nil {
			err = s.refuses(&ev, answer.Actions)
		}
		if err != nil {
			return fmt.Errorf("an event: not done: %w", err)
		}
		return nil
	}
	err = work()
	end()
	<-ended // log is complete
	if err != nil {
		return fail(err)
	}
	return r
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
