package handlertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handlerpb"
)

// Result is the outcome of one clause.
type Result struct {
	// Clause says what a handler does that keeps it: "answers in parallel".
	Clause string
	// Problems say how the handler breaks it: the first ten problems.
	Problems []string
	// NotChecked says why the clause could not be checked; empty if it was.
	NotChecked string
	// Log is what the handler logged and printed: the last hundred lines.
	Log []string
	// Took is how long the check took.
	Took time.Duration
}

// Holds reports whether the clause was checked and holds.
func (r Result) Holds() bool { return len(r.Problems) == 0 && r.NotChecked == "" }

// Check checks one clause after the other and yields each result as it comes. If the first clause
// does not hold, because the handler does not start, the others are not checked. There must be a
// Command or a Remote. When ctx ends, so does the sequence, without the result at hand. Check
// leaves behind no file, and no process of the handler's process group.
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
	sources  madeUp
	wrong    error         // why nothing can be checked with these Options
	patience time.Duration // for a process to end by itself; a start may take half as long again
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
	s := &suite{Options: o, patience: 20 * time.Second}
	s.sources, s.wrong = newMadeUp(o.Cache)
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
	dir, err := os.MkdirTemp("", "ht") // short, as the path of a socket must be
	if err != nil {
		t.result.NotChecked = err.Error()
		return t.result
	}
	defer func() { _ = os.RemoveAll(dir) }()
	t.dir = dir
	c.check(t, ctx)
	t.result.Log, t.result.Took = t.logged.last(), time.Since(began)
	return t.result
}

// trial is the check of one clause.
type trial struct {
	*suite
	dir    string // for sockets
	logged lines

	mu     sync.Mutex // guards result's Problems
	result Result
}

const maxProblems = 10

// fail says how the handler breaks the clause. It may be called concurrently.
func (t *trial) fail(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.result.Problems) < maxProblems {
		t.result.Problems = append(t.result.Problems, fmt.Sprintf(format, args...))
	}
}

// starts also decides whether there is anything else to check.
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
		t.fail("%v", err)
	case d.GetName() == "":
		t.fail("it has no name")
	}
	if len(d.GetConfigSchema()) > 0 && !json.Valid(d.GetConfigSchema()) {
		t.fail("its config schema is not JSON")
	}
}

func (t *trial) refuses(ctx context.Context) {
	_, err := t.try(ctx, t.BadConfig)
	var refused *refusal
	switch {
	case err == nil:
		t.fail("it accepts %s", t.BadConfig)
	case !errors.As(err, &refused):
		t.fail("it does not refuse the config %s but fails: %v", t.BadConfig, err)
	case slices.ContainsFunc(refused.problems, func(p *handlerpb.Problem) bool {
		return strings.TrimSpace(p.GetMessage()) == ""
	}):
		t.fail("it refuses the config %s without saying why", t.BadConfig)
	}
}
