package action

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
)

// How fast a handler, or a rule with actions of its own, may have the cluster changed.
const (
	perSecond = 50
	burst     = 100
	maxRates  = 4096 // handlers; past it all begin anew
)

// rates has a limit for each handler. Its zero value is ready.
type rates struct {
	mu sync.Mutex
	of map[By]*rate.Limiter
}

// wait returns when it is the handler's turn to have one action carried out.
func (r *rates) wait(ctx context.Context, by By) error {
	if by.Handler != "" {
		by.Rule = ""
	}
	r.mu.Lock()
	if r.of == nil || len(r.of) >= maxRates {
		r.of = make(map[By]*rate.Limiter)
	}
	l := r.of[by]
	if l == nil {
		l = rate.NewLimiter(perSecond, burst)
		r.of[by] = l
	}
	r.mu.Unlock()
	return l.Wait(ctx)
}

// maxConflicts is for how many objects conflicts are counted; past it all begin anew.
const maxConflicts = 4096

// conflicts counts those in a row of each rule and object. Its zero value is ready.
type conflicts struct {
	mu sync.Mutex
	of map[contest]int
}

type contest struct {
	rule string
	place
}

// another counts one more, and tells how many there were.
func (c *conflicts) another(at contest) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= maxConflicts {
		c.of = make(map[contest]int)
	}
	c.of[at]++
	return c.of[at]
}

func (c *conflicts) over(at contest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, at)
}
