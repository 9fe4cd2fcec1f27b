package action

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/informd/informd/internal/seldom"
	"github.com/informd/informd/plugins/handler"
)

// How many actions a handler may perform, how many Events a rule may record, and for how many events
// it may perform actions of its own.
const (
	perSecond = 50
	burst     = 100
	maxRates  = 4096 // handlers or rules; beyond it, some limit starts over
)

// limits bound what handlers and rules do.
type limits struct {
	rates rates // of handlers' actions, and of the Events that rules record
	begun rates // of the events for which rules act
	gate  *gate // for the actions of rules
}

// enter waits until the action may begin. Unless it returns an error, which is ctx's or ErrStopped,
// the caller calls leave once, when the action has ended.
func (l *limits) enter(ctx context.Context, t task) (leave func(isOverload bool), err error) {
	if t.by.Handler != "" {
		return func(bool) {}, l.rates.wait(ctx, t.by)
	}
	if t.sequence != nil {
		if err := t.sequence.await(ctx); err != nil {
			return nil, err
		}
	}
	if t.action.Verb == handler.ActionEvent {
		if err := l.rates.wait(ctx, t.by); err != nil {
			return nil, err
		}
	}
	leave, err = l.gate.enter(ctx, t.by.Rule)
	if err == nil && t.sequence != nil && t.sequence.isStopped() {
		leave(false)
		return nil, ErrStopped
	}
	return leave, err
}

// rates has one limit per handler, or per rule with its own actions. It is safe for concurrent use.
// Its zero value is ready.
type rates struct {
	mu sync.Mutex
	of map[By]*rate.Limiter
}

// wait returns when the handler or rule may go on, or with ctx's error.
func (r *rates) wait(ctx context.Context, by By) error { return r.limit(by).Wait(ctx) }

// reserve returns how long the handler or rule has to wait until it may go on. The caller does.
func (r *rates) reserve(by By) time.Duration { return r.limit(by).Reserve().Delay() }

func (r *rates) limit(by By) *rate.Limiter {
	by.Confidential = false
	if by.Handler != "" {
		by.Rule = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.of[by]
	if l == nil {
		makeRoom(&r.of, maxRates)
		l = rate.NewLimiter(perSecond, burst)
		r.of[by] = l
	}
	return l
}

// repeated bounds the failures of actions in the log. Each rule has bounds of its own: the same
// failure of the same action once a minute, and as many different ones as seldom.Messages lets
// through. Its zero value is ready.
type repeated struct {
	mu sync.Mutex
	of map[By]*seldom.Messages // guarded by mu
}

func (r *repeated) allow(by By, now time.Time, message string) (held int, ok bool) {
	by.Confidential = false
	r.mu.Lock()
	m := r.of[by]
	if m == nil {
		makeRoom(&r.of, maxRates)
		m = new(seldom.Messages)
		r.of[by] = m
	}
	r.mu.Unlock()
	return m.Allow(now, message)
}

// makeRoom makes sure that one more entry fits into m. If there are limit already, one is dropped.
func makeRoom[K comparable, V any](m *map[K]V, limit int) {
	if *m == nil {
		*m = make(map[K]V)
	}
	for k := range *m {
		if len(*m) < limit {
			return
		}
		delete(*m, k)
	}
}

// maxConflicts bounds the objects whose conflicts are counted; beyond it, some count starts over.
const maxConflicts = 4096

// conflicts counts the conflicts in a row, by rule and object. Its zero value is ready.
type conflicts struct {
	mu sync.Mutex
	of map[contest]int
}

type contest struct {
	rule string
	target
}

// another counts one more conflict, and returns how many there are.
func (c *conflicts) another(at contest) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[at] == 0 {
		makeRoom(&c.of, maxConflicts)
	}
	c.of[at]++
	return c.of[at]
}

func (c *conflicts) over(at contest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, at)
}
