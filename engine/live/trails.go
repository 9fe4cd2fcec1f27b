package live

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

// Trails is what the engine remembers of the last changes and attempts, for people who ask why a
// rule did not fire. Each rule has two rings: a rule whose when is seldom true sees many more
// changes than it delivers, and would forget its deliveries otherwise.
type Trails struct {
	Changes, Attempts *trail.Trail
	Acted             *Acted    // the rule's own actions, and those of its handler
	Began             time.Time // when the trails began
}

// MaxActed bounds the actions that are remembered, per rule.
const MaxActed = 64

// Acted are the last actions that were performed for one rule. It is safe for concurrent use.
type Acted struct {
	mu  sync.Mutex // a leaf
	all []DoneAt   // the oldest first; guarded by mu
	// now counts the results of events whose actions are being performed, by the event's id;
	// guarded by mu.
	now map[string]map[action.Result]int
}

// DoneAt is an action, and when it was performed.
type DoneAt struct {
	action.Done
	At time.Time
}

// Add adds an action that was performed.
func (a *Acted) Add(d action.Done, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == MaxActed {
		a.all = slices.Delete(a.all, 0, 1)
	}
	a.all = append(a.all, DoneAt{d, at})
	if results := a.now[d.Delivery]; results != nil {
		results[d.Result]++
	}
}

// Begin says that the rule's own actions for an event begin.
func (a *Acted) Begin(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil {
		a.now = make(map[string]map[action.Result]int)
	}
	a.now[id] = make(map[action.Result]int)
}

// End says that the actions have ended, and returns their result if they have succeeded. What an
// earlier attempt changed counts while it is remembered.
func (a *Acted) End(id string) trail.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	results := a.now[id]
	delete(a.now, id)
	hasChanged := func(d DoneAt) bool {
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

// List returns the last actions, the oldest first.
func (a *Acted) List() []DoneAt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

// NewTrails returns the trails of one rule out of a number, which begin now.
func NewTrails(c *trail.Counter, rules int, now time.Time) Trails {
	bound := min(maxTrail, max(minTrail, maxTrails/max(rules, 1)))
	return Trails{
		Changes: trail.New(c, bound), Attempts: trail.New(c, bound), Acted: new(Acted), Began: now,
	}
}

// NoteSelected remembers and counts a change that the rule selects and its lane takes. It is the
// Matched of dispatch.LaneOptions.
func (r *Rule) NoteSelected(d delta.Delta) {
	verdict := trail.Selected
	if r.Group != nil {
		verdict = trail.Gathered
	}
	r.NoteMatch(d, verdict)
}

// NoteMatch remembers and counts a change that the rule selects.
func (r *Rule) NoteMatch(d delta.Delta, verdict trail.Verdict) {
	r.Matches.Add(1)
	r.Trails.Changes.Add(d, verdict, r.Preparer.Clock.Now())
}

// SinceSelected corrects the latency of attempts, which counts from the first change that their
// event includes. If the newest one, which gives the event its id, is remembered, it counts from
// there.
func (t Trails) SinceSelected(attempts []trail.Entry) {
	if len(attempts) == 0 {
		return
	}
	type change struct {
		uid, version string
		round        int64
	}
	selected := make(map[change]time.Time)
	changes, _ := t.Changes.After(0)
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
func (t Trails) noteDecided(d delta.Delta, selected bool, failed error, now time.Time) {
	verdict := trail.Selected
	switch {
	case !selected && failed != nil:
		verdict = trail.Failed
	case !selected:
		verdict = trail.ByWhen
	}
	t.Changes.Add(d, verdict, now)
}
