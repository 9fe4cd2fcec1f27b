package engine

import (
	"github.com/informd/informd/engine/tally"
)

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
	for _, r := range e.work().Rules {
		if r.Tally.Restore(saved[r.ID]) {
			continue
		}
		for name := range saved[r.ID] {
			e.store.DeleteNote(r.ID, name)
		}
		r.Tally.Begin()
	}
}
