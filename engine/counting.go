package engine

import (
	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/tally"
	"github.com/informd/informd/engine/trail"
)

// newTally returns what counts the matches of a rule, or nil if the rule has no count.
func (e *Engine) newTally(id string, c *rule.Count) *tally.Tally {
	if e.store == nil {
		return tally.New(id, c, nil)
	}
	return tally.New(id, c, e.store)
}

// countDecided counts an event that was decided at its delivery. It implements the Count of
// dispatch.LaneOptions.
func (r *runningRule) countDecided(d delta.Delta, m count.Mark) (goesOn bool) {
	now := r.preparer.clock.Now()
	if goesOn = r.tally.Add(d, m, now); !goesOn {
		r.trails.changes.Add(d, trail.ByCount, now)
	}
	return goesOn
}

// restoreCounts restores what rules had counted when the state was saved, and forgets it for rules
// whose count has changed since. It is called within a cut.
func (e *Engine) restoreCounts(notes map[noteID][]byte) {
	saved := make(map[string]map[string][]byte) // by rule and note
	for id, value := range notes {
		if tally.IsNote(id.name) {
			if saved[id.rule] == nil {
				saved[id.rule] = make(map[string][]byte)
			}
			saved[id.rule][id.name] = value
		}
	}
	for _, r := range e.work().rules {
		if r.tally.Restore(saved[r.id]) {
			continue
		}
		for name := range saved[r.id] {
			e.store.DeleteNote(r.id, name)
		}
		r.tally.Begin()
	}
}
