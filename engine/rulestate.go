package engine

import (
	"maps"

	"github.com/informd/informd/engine/state"
)

// takeUp takes up whether the rule was paused, unless somebody has said something else meanwhile.
func (r *runningRule) takeUp(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked && paused {
		r.paused = true
		r.lane.Pause()
	}
}

// saw, within begin and end, records that the rule, as it is now, has been told of what an informer has.
func (r *runningRule) saw(at *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[string]string)
	}
	r.seen[at.id] = r.whereText()
	r.put()
}

// knew says what the rule's where was when it saw an informer last. It has not been told yet what is different.
func (r *runningRule) knew(at *record, where string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[string]string)
	}
	r.seen[at.id] = where
}

// pause, within begin and end, has the rule's deliveries wait or not, and records it.
func (r *runningRule) pause(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if paused {
		r.lane.Pause()
	} else {
		r.lane.Resume()
	}
	r.asked, r.paused = true, paused
	if r.isKnown { // else it is recorded with what was saved of it
		r.put()
	}
}

// known, within begin and end, records the rule for the first time in this run.
func (r *runningRule) known() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isKnown = true
	r.put()
}

// put, with r.mu, records the rule.
func (r *runningRule) put() {
	if r.store != nil {
		r.store.PutRule(state.Rule{Name: r.Name, Resource: r.resource(), Seen: maps.Clone(r.seen), Paused: r.paused})
	}
}

// catchUp says that an informer is to catch up with what was saved. What the last process was killed over is told again
// meanwhile: it may have been delivered, and must not be merged as if it had not.
func (r *runningRule) catchUp(at *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.catching == nil {
		r.catching = make(map[*record]bool)
	}
	r.catching[at] = true
	r.lane.Doubt(true)
}

// caughtUp says that it has.
func (r *runningRule) caughtUp(at *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.catching, at); len(r.catching) == 0 {
		r.lane.Doubt(false)
	}
}

func (r *runningRule) whereText() string {
	if r.Where == nil {
		return ""
	}
	return r.Where.Text()
}

func (r *runningRule) resource() string { return resourceName(r.Source.Resource) }
