package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/trail"
)

// Bounds of the remembered changes, and of the remembered attempts.
const (
	maxTrail  = 1024      // per rule
	maxTrails = 32 * 1024 // in all, if that leaves each rule minTrail
	minTrail  = 16
)

// trails is what the engine remembers of the last changes and attempts, for people who ask why a rule
// did not fire. Each rule has two rings: a rule whose when is seldom true sees many more changes than
// it delivers, and would forget its deliveries otherwise.
type trails struct {
	changes, attempts *trail.Trail
	acted             *acted
	began             time.Time
}

// maxActed bounds the actions that are remembered, per rule.
const maxActed = 64

// acted are the last actions that were performed for one rule.
type acted struct {
	mu  sync.Mutex // a leaf
	all []doneAt   // the oldest first; guarded by mu
	// now counts the results of events whose actions are being performed, by the event's id; guarded
	// by mu.
	now map[string]map[action.Result]int
}

type doneAt struct {
	action.Done
	at time.Time
}

func (a *acted) add(d action.Done, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == maxActed {
		a.all = slices.Delete(a.all, 0, 1)
	}
	a.all = append(a.all, doneAt{d, at})
	if results := a.now[d.Delivery]; results != nil {
		results[d.Result]++
	}
}

// begin says that the rule's own actions for an event begin.
func (a *acted) begin(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil {
		a.now = make(map[string]map[action.Result]int)
	}
	a.now[id] = make(map[action.Result]int)
}

// end says that the actions have ended, and returns their result if they have succeeded. What an
// earlier attempt changed counts while it is remembered.
func (a *acted) end(id string) trail.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	results := a.now[id]
	delete(a.now, id)
	hasChanged := func(d doneAt) bool {
		return d.Delivery == id && (d.Result == action.Changed || d.Result == action.Created)
	}
	switch {
	case results[action.Changed]+results[action.Created] > 0, slices.ContainsFunc(a.all, hasChanged):
		return trail.Acted
	case results[action.Gone] > 0:
		return trail.Vanished
	case results[action.Unchanged] > 0:
		return trail.Unchanged
	}
	return trail.Acted
}

func (a *acted) list() []doneAt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

// observe makes the rules remember their actions.
func (e *Engine) observe(next func(action.Done)) func(action.Done) {
	return func(d action.Done) {
		if r := e.maker(d.Rule); r != nil {
			r.trails.acted.add(d, e.clock.Now())
		}
		if next != nil {
			next(d)
		}
	}
}

// newTrails returns the trails of one rule out of a number, which begin now.
func newTrails(c *trail.Counter, rules int, now time.Time) trails {
	bound := min(maxTrail, max(minTrail, maxTrails/max(rules, 1)))
	return trails{
		changes: trail.New(c, bound), attempts: trail.New(c, bound), acted: new(acted), began: now,
	}
}

// selected remembers and counts a change that the rule selects and its lane takes. It is the Matched
// of dispatch.LaneOptions.
func (r *runningRule) selected(d delta.Delta) {
	verdict := trail.Selected
	if r.Group != nil {
		verdict = trail.Gathered
	}
	r.matched(d, verdict)
}

// matched remembers and counts a change that the rule selects.
func (r *runningRule) matched(d delta.Delta, verdict trail.Verdict) {
	r.matches.Add(1)
	r.trails.changes.Add(d, verdict, r.preparer.clock.Now())
}

// sinceSelected corrects the latency of attempts, which counts from the first change that their event
// includes. If the newest one, which gives the event its id, is remembered, it counts from there.
func (t trails) sinceSelected(attempts []trail.Entry) {
	if len(attempts) == 0 {
		return
	}
	type change struct {
		uid, version string
		round        int64
	}
	selected := make(map[change]time.Time)
	changes, _ := t.changes.After(0)
	for i := range changes {
		c := &changes[i]
		of := change{c.UID, c.Version, c.Round}
		switch c.Verdict {
		case trail.Selected, trail.Gathered, trail.Undecided:
			if _, ok := selected[of]; !ok {
				selected[of] = c.At
			}
		}
	}
	for i := range attempts {
		a := &attempts[i]
		if at, ok := selected[change{a.UID, a.Version, a.Round}]; ok && !a.At.Before(at) {
			a.Latency = min(a.Latency, a.At.Sub(at))
		}
	}
}

// noteDecided remembers what became of a change that was decided at its delivery.
func (t trails) noteDecided(d delta.Delta, selected bool, failed error, now time.Time) {
	verdict := trail.Selected
	switch {
	case !selected && failed != nil:
		verdict = trail.Failed
	case !selected:
		verdict = trail.ByWhen
	}
	t.changes.Add(d, verdict, now)
}
