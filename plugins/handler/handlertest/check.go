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

// Check checks one clause after the other and yields each result as it comes. A handler that does
// not start, or does not answer a simple event with done, keeps hardly any other clause, for the
// same reason. So the sequence ends with such a clause. There must be a Command or a Remote. When
// ctx ends, so does the sequence, without the result at hand. A clause takes at most a minute. So
// does a check in which one does not hold: the clauses that are left then are not checked.
// Check leaves behind no file, and no process of the handler's process group.
func Check(ctx context.Context, o Options) iter.Seq[Result] {
	return func(yield func(Result) bool) { newSuite(o).run(ctx, yield) }
}

func (s *suite) run(ctx context.Context, yield func(Result) bool) {
	began, fails := time.Now(), false
	for _, c := range s.clauses() {
		r := Result{Clause: c.name, NotChecked: tookLong}
		if !fails || time.Since(began) < s.total {
			r = s.check(ctx, c)
		}
		fails = fails || len(r.Problems) > 0
		if s.Only != "" && c.name != s.Only && r.Holds() {
			continue // it only prepares
		}
		if ctx.Err() != nil || !yield(r) || s.broken != "" {
			return
		}
	}
}

// Clauses returns the names of all clauses, in the order in which they are checked.
func Clauses() (names []string) {
	for _, c := range clauses {
		names = append(names, c.name)
	}
	return names
}

// clauses returns the clauses to check: with Only that one, and before it the first, without which
// there is nothing to check.
func (s *suite) clauses() []clause {
	if s.Only == "" {
		return clauses
	}
	i := slices.IndexFunc(clauses, func(c clause) bool { return c.name == s.Only })
	if i < 0 {
		return []clause{{name: s.Only, check: func(t *trial, _ context.Context) {
			t.fail("there is no such clause; Clauses has all of them")
		}}}
	}
	if i == 0 {
		return clauses[:1]
	}
	return []clause{clauses[0], clauses[i]}
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
	limit    time.Duration // of one clause
	total    time.Duration // of all, if one does not hold
	broken   string        // why the other clauses are not checked
}

// tookLong is why clauses are not checked at the end of a check that took long.
const tookLong = "the check has taken a minute, and not all clauses hold; check this one alone"

const (
	// clauseLimit bounds the check of one clause, and of all if one does not hold.
	clauseLimit = time.Minute
	// debugTimeout is every time limit with Options.Debug.
	debugTimeout = 24 * time.Hour
)

func newSuite(o Options) *suite {
	if o.Event == nil {
		o.Event = configMap
	}
	if len(o.BadConfig) == 0 {
		o.BadConfig = json.RawMessage(`{"handlertest-unknown-field": 1}`)
	}
	o.Timeout = cmp.Or(max(o.Timeout, 0), 10*time.Second)
	s := &suite{Options: o, patience: 20 * time.Second, limit: clauseLimit, total: clauseLimit}
	if o.Debug {
		s.Timeout, s.limit = debugTimeout, debugTimeout
	}
	s.sources, s.wrong = newMadeUp(o.Cache)
	return s
}

// check checks one clause.
func (s *suite) check(ctx context.Context, c clause) Result {
	began := time.Now()
	t := &trial{suite: s, result: Result{Clause: c.name}}
	switch {
	case s.broken != "":
		t.result.NotChecked = s.broken
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
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	t.over = limited.Done()
	c.check(t, limited)
	if t.wasCut && len(t.result.Problems) == 0 {
		t.result.NotChecked = fmt.Sprintf("it was not finished within %v", s.limit)
	}
	t.result.Log, t.result.Took = t.logged.last(), time.Since(began)
	return t.result
}

// trial is the check of one clause.
type trial struct {
	*suite
	dir    string // for sockets
	logged lines
	over   <-chan struct{} // closed when the check of the clause has taken too long

	mu     sync.Mutex // guards result's Problems, and wasCut
	result Result
	wasCut bool // something failed once it was over, which may be the only reason
}

const maxProblems = 10

// fail says how the handler breaks the clause. It may be called concurrently.
func (t *trial) fail(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.over:
		t.wasCut = true
		return
	default:
	}
	if len(t.result.Problems) < maxProblems {
		t.result.Problems = append(t.result.Problems, fmt.Sprintf(format, args...))
	}
}

// starts also decides whether there is anything else to check.
func (t *trial) starts(ctx context.Context) {
	if t.wrong != nil {
		t.broken = "the cache is wrong"
		t.fail("%v", t.wrong)
		return
	}
	d, err := t.try(ctx, t.Config)
	if err != nil {
		t.broken = "it does not start"
	}
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
