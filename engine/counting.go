package engine

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/trail"
)

// counting counts the matches of one rule with a count, which may come from several informers and
// from the dispatcher. It records what it has counted.
type counting struct {
	rule  string // its ID
	count *rule.Count
	store *state.Store // nil if nothing is kept

	mu      sync.Mutex     // taken within the state's cut, before Store.mu
	windows *count.Windows // guarded by mu
	isGone  bool           // the rule is gone: nothing is recorded any more; guarded by mu

	lost atomic.Int64 // windows that had to go, since the last full
}

// maxLate is how long after it happened a change may come to a rule whose count has an at. It is in
// proportion to how long informd may be down.
const maxLate = 24 * time.Hour

// newCounting returns what counts the matches of a rule, or nil if the rule has no count.
func (e *Engine) newCounting(id string, c *rule.Count) *counting {
	if c == nil {
		return nil
	}
	var late time.Duration
	if c.At != nil {
		late = maxLate
	}
	return &counting{rule: id, count: c, store: e.store, windows: count.New(c.Times, c.Within, late)}
}

// add counts a match, and reports whether it goes on. It is called within a cut, and records in it
// what has changed.
func (c *counting) add(d delta.Delta, m count.Mark, now time.Time) (goesOn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.Occasion = 0 // an object that has not changed does not count again because the rule has
	change := c.windows.Add(m, d.ID(c.rule), now)
	if c.store != nil && !c.isGone {
		if change.Record != nil {
			note := state.Note{Rule: c.rule, Name: windowNote(m.Of), Value: change.Record}
			c.store.PutNote(note)
		}
		for _, of := range change.Over {
			c.store.DeleteNote(c.rule, windowNote(of))
		}
	}
	c.lost.Add(int64(change.Lost))
	return change.GoesOn
}

// open returns how many windows have matches that count. The receiver may be nil.
func (c *counting) open(now time.Time) int {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.windows.Open(now)
}

// full returns an error if windows had to go since it was last called. The receiver may be nil.
func (c *counting) full() error {
	if c == nil || c.lost.Swap(0) == 0 {
		return nil
	}
	return errFullCount
}

var errFullCount = fmt.Errorf("count: it has more than %d open windows, or %d events in them: "+
	"informd dropped the oldest", count.MaxWindows, count.MaxEvents)

// countDecided counts an event that was decided at its delivery. It implements the Count of
// dispatch.LaneOptions.
func (r *runningRule) countDecided(d delta.Delta, m count.Mark) (goesOn bool) {
	now := r.preparer.clock.Now()
	if goesOn = r.counting.add(d, m, now); !goesOn {
		r.trails.changes.Add(d, trail.ByCount, now)
	}
	return goesOn
}

// countNote is the name of the note that has the text of a rule's count. windowNote returns the name
// of the note that has a window.
const countNote = "count"

func windowNote(of count.Value) string { return countNote + " " + of.String() }

// isOfCount reports whether a note is one of these.
func isOfCount(note string) bool {
	return note == countNote || strings.HasPrefix(note, countNote+" ")
}

// restoreCounts takes up what rules had counted when the state was saved, and forgets it of rules
// whose count has changed since. It is called within a cut.
func (e *Engine) restoreCounts(notes map[noteID][]byte) {
	saved := make(map[string]map[string][]byte) // by rule and note
	for id, value := range notes {
		if isOfCount(id.name) {
			if saved[id.rule] == nil {
				saved[id.rule] = make(map[string][]byte)
			}
			saved[id.rule][id.name] = value
		}
	}
	for _, r := range e.work().rules {
		if r.counting.restore(saved[r.id]) {
			continue
		}
		for name := range saved[r.id] {
			e.store.DeleteNote(r.id, name)
		}
		r.counting.begin()
	}
}

// restore takes up windows from their notes, and reports whether they are of the same count. What
// cannot be read is left out: its window begins anew.
func (c *counting) restore(notes map[string][]byte) (isSame bool) {
	if c == nil || string(notes[countNote]) != c.count.Text() {
		return false
	}
	records := make(map[count.Value][]byte, len(notes))
	for name, value := range notes {
		if of, ok := count.ParseValue(strings.TrimPrefix(name, countNote+" ")); ok {
			records[of] = value
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.windows.Restore(records)
	return true
}

// forget drops the record of what was counted. It is called within a cut. The receiver may be nil.
func (c *counting) forget() {
	if c == nil || c.store == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store.DeleteNote(c.rule, countNote)
	for _, of := range c.windows.Values() {
		c.store.DeleteNote(c.rule, windowNote(of))
	}
}

// end has nothing recorded any more. The receiver may be nil.
func (c *counting) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isGone = true
}

// begin records the rule's count. The receiver may be nil.
func (c *counting) begin() {
	if c != nil && c.store != nil {
		c.store.PutNote(state.Note{Rule: c.rule, Name: countNote, Value: []byte(c.count.Text())})
	}
}
