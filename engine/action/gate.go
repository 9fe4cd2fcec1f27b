package action

import (
	"context"
	"slices"
	"sync"
	"time"
)

// How many actions of rules may be under way. An API server with two cores is busy with 8; more only
// lengthen its queue.
const (
	perRule  = 8
	perAll   = 16
	oneMore  = time.Second // after which a rule that had to slow down gets one more
	maxRules = 4096        // beyond it, the gate forgets that some rule had to slow down
)

// gate bounds how many actions of rules are under way. Rules take turns at it. A rule whose requests
// the API server cannot keep up with gets a smaller share for a while. It is safe for concurrent
// use.
type gate struct {
	now func() time.Time

	mu    sync.Mutex
	busy  int               // actions under way; guarded by mu
	begun uint64            // how many actions were let in; guarded by mu
	of    map[string]*share // by rule; guarded by mu
	turns []*share          // those with somebody who waits, the next one first; guarded by mu
}

// share is what one rule has of a gate. The gate's mu guards it.
type share struct {
	rule    string
	busy    int       // actions under way
	limit   int       // how many may be, from 1 to perRule
	at      time.Time // since when nothing was earned for limit, if it is lowered
	halved  uint64    // the gate's begun when limit was last lowered
	waiting []*place  // who came first is first
}

// place is somebody's place before or within a gate.
type place struct {
	share *share
	n     uint64        // the gate's begun with it, once it is in
	isIn  chan struct{} // closed once it is in
}

func newGate(now func() time.Time) *gate { return &gate{now: now, of: make(map[string]*share)} }

// enter waits until one more action of the rule may begin. Unless it returns an error, which is
// ctx's, the caller calls leave once, when the action has ended. isOverload says that the API server
// had too much to do.
func (g *gate) enter(ctx context.Context, rule string) (leave func(isOverload bool), err error) {
	p := g.queue(rule)
	select {
	case <-p.isIn:
	case <-ctx.Done():
		g.giveUp(p)
		return nil, ctx.Err()
	}
	return func(isOverload bool) { g.leave(p, isOverload) }, nil
}

func (g *gate) queue(rule string) *place {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.of[rule]
	if s == nil {
		g.makeRoom()
		s = &share{rule: rule, limit: perRule}
		g.of[rule] = s
	}
	p := &place{share: s, isIn: make(chan struct{})}
	if s.waiting = append(s.waiting, p); len(s.waiting) == 1 {
		g.turns = append(g.turns, s)
	}
	g.letIn()
	return p
}

// giveUp ends the wait for p. It may have been let in meanwhile.
func (g *gate) giveUp(p *place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := p.share
	at := slices.Index(s.waiting, p)
	if at < 0 {
		s.busy--
		g.busy--
	} else if s.waiting = slices.Delete(s.waiting, at, at+1); len(s.waiting) == 0 {
		g.turns = slices.DeleteFunc(g.turns, func(other *share) bool { return other == s })
	}
	g.letIn()
	g.forget(s)
}

func (g *gate) leave(p *place, isOverload bool) {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := p.share
	s.busy--
	g.busy--
	s.recover(now)
	// What began before the share was halved says nothing about how it does since.
	if isOverload && p.n > s.halved {
		s.limit, s.halved = max(s.limit/2, 1), g.begun
	}
	if isOverload {
		s.at = now
	}
	g.letIn()
	g.forget(s)
}

// recover gives back what time has earned since the limit was lowered.
func (s *share) recover(now time.Time) {
	if s.limit == perRule {
		return
	}
	earned := max(now.Sub(s.at)/oneMore, 0)
	s.limit = int(min(time.Duration(s.limit)+earned, perRule))
	s.at = s.at.Add(earned * oneMore)
}

// letIn lets in who may begin now. The rule that gets a place goes to the end of the turns. The
// caller holds mu.
func (g *gate) letIn() {
	now := g.now()
	for g.busy < perAll {
		at := slices.IndexFunc(g.turns, func(s *share) bool {
			s.recover(now)
			return s.busy < s.limit
		})
		if at < 0 {
			return
		}
		s := g.turns[at]
		p := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		if g.turns = slices.Delete(g.turns, at, at+1); len(s.waiting) > 0 {
			g.turns = append(g.turns, s)
		}
		s.busy++
		g.busy++
		g.begun++
		p.n = g.begun
		close(p.isIn)
	}
}

// forget drops a share that is as a new one would be. The caller holds mu.
func (g *gate) forget(s *share) {
	if s.isIdle() && s.limit == perRule {
		delete(g.of, s.rule)
	}
}

func (s *share) isIdle() bool { return s.busy == 0 && len(s.waiting) == 0 }

// makeRoom makes sure that one more share fits, if any is idle. The caller holds mu.
func (g *gate) makeRoom() {
	for rule, s := range g.of {
		if len(g.of) < maxRules {
			return
		}
		if s.isIdle() {
			delete(g.of, rule)
		}
	}
}
