// Package tally counts the changes of rules with a count, and has the next run go on with that.
// Package count decides which of them go on.
package tally

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/state/records"
)

// Notes record what the next run has to know. *state.Store implements it.
type Notes interface {
	PutNote(records.Note)
	DeleteNote(rule, name string)
}

// Tally counts the matches of one rule with a count, which may come from several informers and
// from the dispatcher. It records what it has counted. It is safe for concurrent use.
//
// The nil Tally is that of a rule without a count.
type Tally struct {
	rule  string // its ID
	count *rule.Count
	notes Notes // nil if nothing is kept

	mu      sync.Mutex     // taken within the state's cut, before the lock of notes
	windows *count.Windows // guarded by mu
	isGone  bool           // the rule is gone: nothing is recorded any more; guarded by mu

	lost atomic.Int64 // windows that were dropped because of a bound, since the last Full
}

// maxLate is how long after it happened a change may come to a rule whose count has an at. It is in
// proportion to how long informd may be down.
const maxLate = 24 * time.Hour

// New returns what counts the matches of a rule, or nil if the rule has no count. notes may be nil.
func New(rule string, c *rule.Count, notes Notes) *Tally {
	if c == nil {
		return nil
	}
	var late time.Duration
	if c.At != nil {
		late = maxLate
	}
	return &Tally{rule: rule, count: c, notes: notes, windows: count.New(c.Times, c.Within, late)}
}

// SetID changes the ID of a rule that is not at work yet. The receiver may be nil.
func (t *Tally) SetID(rule string) {
	if t != nil {
		t.rule = rule
	}
}

// Add counts a match, and reports whether it goes on. It is called within a cut, and records in it
// what has changed.
func (t *Tally) Add(d delta.Delta, m count.Hit, now time.Time) (goesOn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d.Occasion = 0 // an object that has not changed does not count again because the rule has
	change := t.windows.Add(m, d.ID(t.rule), now)
	if t.notes != nil && !t.isGone {
		if change.Record != nil {
			note := records.Note{Rule: t.rule, Name: nameOf(m.Of), Value: change.Record}
			t.notes.PutNote(note)
		}
		for _, of := range change.Over {
			t.notes.DeleteNote(t.rule, nameOf(of))
		}
	}
	t.lost.Add(int64(change.Lost))
	return change.GoesOn
}

// Open returns how many windows have matches that count. The receiver may be nil.
func (t *Tally) Open(now time.Time) int {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.windows.Open(now)
}

// Have returns how many changes count in the window of a value.
func (t *Tally) Have(of count.Value, now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.windows.Have(of, now)
}

// Full returns ErrFull if windows were dropped because of a bound since it was last called. The
// receiver may be nil.
func (t *Tally) Full() error {
	if t == nil || t.lost.Swap(0) == 0 {
		return nil
	}
	return ErrFull
}

// ErrFull says that what counts has exceeded a bound.
var ErrFull = fmt.Errorf("count: it has more than %d open windows, or %d events in them: "+
	"informd dropped the oldest", count.MaxWindows, count.MaxEvents)

// textNote is the name of the note that has the text of a rule's count. nameOf returns the name of
// the note that has a window.
const textNote = "count"

func nameOf(window count.Value) string { return textNote + " " + window.String() }

// IsNote reports whether a note is one of these.
func IsNote(name string) bool {
	return name == textNote || strings.HasPrefix(name, textNote+" ")
}

// Restore restores windows from their notes, and reports whether they are of the same count. It
// leaves out what it cannot read: that window starts empty. The receiver may be nil.
func (t *Tally) Restore(notes map[string][]byte) (isSame bool) {
	if t == nil || string(notes[textNote]) != t.count.Text() {
		return false
	}
	windows := make(map[count.Value][]byte, len(notes))
	for name, value := range notes {
		if of, ok := count.ParseValue(strings.TrimPrefix(name, textNote+" ")); ok {
			windows[of] = value
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.windows.Restore(windows)
	return true
}

// Forget drops the records of the count. It is called within a cut. The receiver may be nil.
func (t *Tally) Forget() {
	if t == nil || t.notes == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes.DeleteNote(t.rule, textNote)
	for _, of := range t.windows.Values() {
		t.notes.DeleteNote(t.rule, nameOf(of))
	}
}

// End stops recording. The receiver may be nil.
func (t *Tally) End() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isGone = true
}

// Begin records the rule's count. It is called within a cut. The receiver may be nil.
func (t *Tally) Begin() {
	if t != nil && t.notes != nil {
		note := records.Note{Rule: t.rule, Name: textNote, Value: []byte(t.count.Text())}
		t.notes.PutNote(note)
	}
}
