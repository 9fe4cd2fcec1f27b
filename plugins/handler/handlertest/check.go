package handlertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// Result is what became of one clause.
type Result struct {
	// Clause is what a handler does that keeps it: "answers in parallel".
	Clause string
	// Problems say in which ways this one does not. Of many, the first ten are kept.
	Problems []string
	// NotChecked says why it could not be told whether the clause holds; empty if it could.
	NotChecked string
	// Log is what the handler logged, and informd about it: the last hundred lines.
	Log []string
	// Took is how long the check took.
	Took time.Duration
}

// Holds tells whether the clause was checked and holds.
func (r Result) Holds() bool { return len(r.Problems) == 0 && r.NotChecked == "" }

// Check checks one clause after the other and yields what became of each, as it comes. Without a first one that holds, a
// handler that starts, the others are not checked. There must be a Command or a Remote. When ctx ends, so does the sequence; the
// result at hand is not yielded. No process and no file is left behind.
func Check(ctx context.Context, o Options) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		s := newSuite(o)
		for _, c := range clauses {
			r := s.check(ctx, c)
			if ctx.Err() != nil || !yield(r) {
				return
			}
		}
	}
}

// clause is one part of the contract.
type clause struct {
	name  string
	check func(*trial, context.Context)
	here  bool // it is about a process that informd starts
}

// clauses are all of them. The first is what the others build on.
var clauses = []clause{
	{name: "starts, describes itself and takes its config", check: (*trial).starts},
	{name: "refuses a bad config", check: (*trial).refuses},
	{name: "explains itself when started by hand", check: (*trial).explains, here: true},
	{name: "serves gRPC's health service", check: (*trial).serving},
	{name: "answers", check: (*trial).answers},
	{name: "answers a repeat", check: (*trial).repeats},
	{name: "answers in parallel", check: (*trial).parallel},
	{name: "answers strange events", check: (*trial).strange},
	{name: "answers large events", check: (*trial).large},
	{name: "keeps integers", check: (*trial).integers},
	{name: "asks for actions that can be taken", check: (*trial).actions},
	{name: "reads what the cache has", check: (*trial).reads},
	{name: "answers when the cache cannot be read", check: (*trial).readsNothing},
	{name: "goes on after a cancel", check: (*trial).cancel},
	{name: "lets go of what is cancelled", check: (*trial).letsGo},
	{name: "answers what it has when the stream ends", check: (*trial).streamEnd},
	{name: "bears a second process of itself", check: (*trial).twice, here: true},
	{name: "comes back after kill -9", check: (*trial).killed, here: true},
	{name: "ignores SIGINT and SIGTERM before its drain", check: (*trial).signals, here: true},
	{name: "ends when asked", check: (*trial).ends, here: true},
	{name: "ends with its host", check: (*trial).endsWithHost, here: true},
}

// suite is what all clauses share.
type suite struct {
	Options
	spec     host.Spec
	cache    madeUp
	wrong    error         // why nothing can be checked with these Options
	patience time.Duration // for a process to end by itself; half as long again to start, be it at the second try
	broken   bool          // it does not start
}

func newSuite(o Options) *suite {
	if o.Event == nil {
		o.Event = configMap
	}
	if len(o.BadConfig) == 0 {
		o.BadConfig = json.RawMessage(`{"handlertest-unknown-field": 1}`)
	}
	o.Timeout = cmp.Or(max(o.Timeout, 0), 10*time.Second)
	s := &suite{Options: o, patience: 20 * time.Second, spec: host.Spec{
		Name: "handlertest", Env: o.Env, Dir: o.Dir, Config: o.Config, Concurrency: 16, Timeout: o.Timeout,
	}}
	if len(o.Command) > 0 {
		s.spec.Path, s.spec.Args = o.Command[0], o.Command[1:]
	}
	s.cache, s.wrong = newMadeUp(o.Cache)
	s.spec.Read = s.cache.names()
	return s
}

// check checks one clause.
func (s *suite) check(ctx context.Context, c clause) Result {
	began := time.Now()
	t := &trial{suite: s, result: Result{Clause: c.name}}
	switch {
	case s.broken:
		t.result.NotChecked = "it does not start"
		return t.result
	case c.here && s.Remote != nil:
		t.result.NotChecked = "it is for whoever starts the handler"
		return t.result
	}
	dir, err := os.MkdirTemp("", "ht") // short, as a socket's path must be
	if err != nil {
		t.result.NotChecked = err.Error()
		return t.result
	}
	defer func() { _ = os.RemoveAll(dir) }()
	t.dir = dir
	t.log = slog.New(slog.NewTextHandler(&t.logged, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime}))
	c.check(t, ctx)
	t.result.Log, t.result.Took = t.logged.last(), time.Since(began)
	return t.result
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey || a.Key == "handler" {
		return slog.Attr{}
	}
	return a
}

// trial is one clause under check.
type trial struct {
	*suite
	dir    string // for sockets
	log    *slog.Logger
	logged lines

	mu     sync.Mutex
	result Result
}

const maxProblems = 10

// fail says in which way the clause does not hold. It may be called concurrently.
func (t *trial) fail(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.result.Problems) < maxProblems {
		t.result.Problems = append(t.result.Problems, fmt.Sprintf(format, args...))
	}
}

func (t *trial) options() host.Options {
	o := host.Options{RunDir: t.dir, Version: "handlertest", Logger: t.log}
	if t.cache != nil {
		o.Cache = t.cache
	}
	return o
}

// runner keeps a handler running: a host.Host or a host.Remote.
type runner interface {
	handler.Handler
	Run(context.Context) error
	Ready(context.Context) error
	Status() host.Status
}

func (t *trial) runner(config json.RawMessage, o host.Options) runner {
	if t.Remote != nil {
		return host.NewRemote(t.remote(config), o)
	}
	spec := t.spec
	spec.Config = config
	return host.New(spec, o)
}

// run runs the handler for as long as work takes. That it had to be started again is a problem, and so are answers that
// nobody asked for.
func (t *trial) run(ctx context.Context, work func(runner)) {
	t.supervise(ctx, t.options(), func(h runner, _ context.CancelFunc) {
		work(h)
		st := h.Status()
		if st.Restarts > 0 {
			t.fail("it went away and was started again, %d times", st.Restarts)
		}
		if st.Counts.Unknown > 0 {
			t.fail("it gave %d answers to events that it had answered before, or was never sent", st.Counts.Unknown)
		}
	})
}

// supervise runs the handler until work returns, or for as long as it takes to end after stop.
func (t *trial) supervise(ctx context.Context, o host.Options, work func(_ runner, stop context.CancelFunc)) {
	h := t.runner(t.Config, o)
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(running) }()
	defer func() { stop(); <-done }()
	if t.ready(ctx, h) {
		work(h, stop)
	}
}

func (t *trial) ready(ctx context.Context, h runner) bool {
	within, cancel := context.WithTimeout(ctx, 3*t.patience/2)
	defer cancel()
	err := h.Ready(within)
	if err != nil {
		st := h.Status()
		t.fail("it is %s, not ready: %s", st.State, st.Reason)
	}
	return err == nil
}

// starts also tells whether there is anything to check.
func (t *trial) starts(ctx context.Context) {
	if t.wrong != nil {
		t.broken = true
		t.fail("%v", t.wrong)
		return
	}
	d, err := t.try(ctx, t.Config)
	t.broken = err != nil
	switch {
	case err != nil:
		t.fail("%s", reason(err))
	case d.Name == "":
		t.fail("it has no name")
	}
	if len(d.ConfigSchema) > 0 && !json.Valid(d.ConfigSchema) {
		t.fail("its config schema is not JSON")
	}
}

func (t *trial) refuses(ctx context.Context) {
	_, err := t.try(ctx, t.BadConfig)
	refused, ok := errors.AsType[*host.RefusedError](err)
	switch {
	case err == nil:
		t.fail("it accepts %s", t.BadConfig)
	case !ok:
		t.fail("it does not refuse the config %s but fails: %s", t.BadConfig, reason(err))
	case slices.ContainsFunc(refused.Problems, func(p host.Problem) bool { return strings.TrimSpace(p.Message) == "" }):
		t.fail("it refuses the config %s without saying why", t.BadConfig)
	}
}

// try starts a handler to see whether it takes a config. The error is a *host.RefusedError if it refuses it.
func (t *trial) try(ctx context.Context, config json.RawMessage) (host.Description, error) {
	if t.Remote != nil {
		return t.tryRemote(ctx, config)
	}
	spec := t.spec
	spec.Config = config
	return host.Try(ctx, spec, t.options())
}

// reason is an error of host.Try without the suite's own name for the handler.
func reason(err error) string { return strings.TrimPrefix(err.Error(), `handler "handlertest": `) }

// lines keeps the last lines that are written to it. A line that comes in pieces counts as several.
type lines struct {
	mu   sync.Mutex
	kept []string
}

const maxLogged = 100

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(text)) {
		if len(l.kept) == maxLogged {
			l.kept = slices.Delete(l.kept, 0, 1)
		}
		l.kept = append(l.kept, strings.TrimSuffix(line, "\n"))
	}
	return len(text), nil
}

func (l *lines) last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}
