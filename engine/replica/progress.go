// This file owns whether a member has what the leader has.

package replica

import (
	"sync"
	"time"
)

// progress knows whether the member has caught up: since it started, it has applied everything that
// the leader had when the member first asked. From then on it has caught up as long as it applies
// what the leader has within patience. A member that is a few entries behind, as all are while the
// leader writes, has therefore caught up all the time. Any goroutine may use it.
type progress struct {
	patience time.Duration

	mu         sync.Mutex // guards the fields below
	isCaughtUp bool
	newest     uint64    // the leader's newest entry, at the last look
	goal       uint64    // what the member has to apply to have caught up; 0 before it has asked
	since      time.Time // when goal was the leader's newest
}

// look reports whether the member of own has caught up with the one that leads. If none does, that is
// as it was before.
func (p *progress) look(own Info, reports map[string]*report) bool {
	leader := &own
	for _, r := range reports {
		if r.Role == Leads && r.Cluster == own.Cluster && r.Term >= leader.Term {
			leader = &r.Info
		}
	}
	if leader.Role != Leads {
		isCaughtUp, _ := p.current()
		return isCaughtUp
	}
	return p.note(time.Now(), own.Applied, leader.Last)
}

// note notes that the member has applied everything up to applied, and that newest is the leader's
// newest entry now. It reports whether the member has caught up.
func (p *progress) note(now time.Time, applied, newest uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = newest
	if p.goal == 0 || newest < p.goal { // what a former leader had beyond that was not committed
		p.goal, p.since = newest, now
	}
	switch {
	case applied >= p.goal:
		p.isCaughtUp = true
		p.goal, p.since = newest, now
	case now.Sub(p.since) > p.patience:
		p.isCaughtUp = false
	}
	return p.isCaughtUp
}

// current returns what note has last returned, and the leader's newest entry then.
func (p *progress) current() (isCaughtUp bool, newest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isCaughtUp, p.newest
}
