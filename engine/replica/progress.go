// This file owns whether a member has what the leader has.

package replica

import (
	"sync"
	"time"
)

// progress knows whether the member has caught up: since it started, it has once applied within
// patience everything that the leader had at a look. From then on it has caught up as long as it
// does so. A member that is a few entries behind, as all are while the leader writes, has therefore
// caught up all the time. Any goroutine may use it.
type progress struct {
	patience time.Duration

	mu         sync.Mutex // guards the fields below
	isCaughtUp bool
	newest     uint64    // the leader's newest entry, at the last look
	noted      time.Time // when that was
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
		isCaughtUp, _ := p.current(time.Now())
		return isCaughtUp
	}
	return p.note(time.Now(), own.Applied, leader.Last)
}

// note notes that the member has applied everything up to applied, and that newest is the leader's
// newest entry now. It reports whether the member has caught up.
func (p *progress) note(now time.Time, applied, newest uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest, p.noted = newest, now
	if p.goal == 0 || newest < p.goal { // what a former leader had beyond that was not committed
		p.goal, p.since = newest, now
	}
	switch took := now.Sub(p.since); {
	case applied >= p.goal:
		// Between two looks of a member that has caught up, about patience passes.
		p.isCaughtUp = took <= p.patience || p.isCaughtUp && took <= 2*p.patience
		p.goal, p.since = newest, now
	case took > p.patience:
		p.isCaughtUp = false
	}
	return p.isCaughtUp
}

// current returns what note has last returned, and the leader's newest entry then. That entry is 0
// if note was last called more than twice patience before now.
func (p *progress) current(now time.Time) (isCaughtUp bool, newest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.noted) > 2*p.patience {
		return p.isCaughtUp, 0
	}
	return p.isCaughtUp, p.newest
}
