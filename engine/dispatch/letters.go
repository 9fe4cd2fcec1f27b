package dispatch

import (
	"container/list"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
)

// DeadLetters keeps dead letters. It is safe for concurrent use.
type DeadLetters interface {
	// Add keeps a letter, in place of an older one with the same ID. It returns the letters that it
	// evicted to make room. If the error is nil, DeadLetters alone is responsible for the event.
	// Add is called within the Journal's Begin and End, and logs nothing.
	Add(delivery.Letter) (evicted []delivery.Letter, err error)
	// Delivered marks the letters of an object whose rule has now delivered a later event of it. It
	// is called as Add is, and costs nothing if there are no letters to mark.
	Delivered(rule string, key delta.Key, at time.Time)
	// Rename makes the letters of a rule those of the same rule under another name. They keep their
	// ids. It is called as Add is.
	Rename(from, to string)
}

// LetterStore records the dead letters of a LetterBox. The LetterBox calls it with its lock held.
// So its methods must be quick, and must not call the LetterBox.
type LetterStore interface {
	// PutLetter records a letter, in place of an older one with the same ID.
	PutLetter(delivery.Letter)
	// DeleteLetter drops a record.
	DeleteLetter(id string)
}

// LetterBoxOptions bound a LetterBox.
type LetterBoxOptions struct {
	MaxLetters int   // 0: 10,000
	MaxBytes   int64 // 0: 64 MiB
	// Store records each letter that comes and goes. The caller of Add, Take or Restore encloses
	// the call in the change that it belongs to, see Journal. nil records nothing.
	Store LetterStore
}

// LetterBox keeps dead letters in memory. Beyond its bounds it evicts the oldest and counts that,
// but it always keeps the newest, however large. It logs nothing: see LogEvicted. It is safe for
// concurrent use.
type LetterBox struct {
	opts LetterBoxOptions

	mu      sync.Mutex               // after the Journal's Begin, before locks of the Store
	letters *list.List               // of delivery.Letter, the oldest in front; guarded by mu
	byID    map[string]*list.Element // guarded by mu
	byRule  map[string]int           // how many letters; guarded by mu
	bytes   int64                    // guarded by mu
	evicted uint64                   // guarded by mu
	// unmarked holds the letters that are not Delivered yet, by subject; guarded by mu.
	unmarked map[subject][]*list.Element
	// hasUnmarked is set while unmarked holds something; written under mu.
	hasUnmarked atomic.Bool
}

// subject is what a letter is about: an object, for a rule.
type subject struct {
	rule string
	key  delta.Key
}

// LetterBoxStats describes what a LetterBox holds.
type LetterBoxStats struct {
	Letters int
	Bytes   int64
	Dropped uint64         // total of evicted letters
	ByRule  map[string]int // the letters of each rule that has any
}

var _ DeadLetters = (*LetterBox)(nil)

// NewLetterBox returns an empty LetterBox.
func NewLetterBox(o LetterBoxOptions) *LetterBox {
	if o.MaxLetters <= 0 {
		o.MaxLetters = 10_000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	return &LetterBox{
		opts: o, letters: list.New(), byID: make(map[string]*list.Element), byRule: make(map[string]int),
		unmarked: make(map[subject][]*list.Element),
	}
}

// Add keeps a letter, as DeadLetters says. The error is always nil.
func (b *LetterBox) Add(l delivery.Letter) (evicted []delivery.Letter, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opts.Store != nil {
		b.opts.Store.PutLetter(l)
	}
	return b.add(l), nil
}

// Restore puts back recorded letters, the oldest first, and returns those that exceed the bounds.
// It is called before all other methods.
func (b *LetterBox) Restore(letters []delivery.Letter) (evicted []delivery.Letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range letters {
		evicted = append(evicted, b.add(l)...)
	}
	return evicted
}

// Rename implements DeadLetters.
func (b *LetterBox) Rename(from, to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := b.letters.Front(); e != nil; e = e.Next() {
		l := e.Value.(delivery.Letter)
		if l.Rule != from {
			continue
		}
		was, is := subject{from, l.Key}, subject{to, l.Key}
		if b.unmarked[was] != nil {
			b.unmarked[is] = append(b.unmarked[is], b.unmarked[was]...)
			delete(b.unmarked, was)
		}
		b.bytes -= letterSize(&l)
		b.count(from, -1)
		l.Rule = to
		b.count(to, 1)
		b.bytes += letterSize(&l)
		e.Value = l
		if b.opts.Store != nil {
			b.opts.Store.PutLetter(l)
		}
	}
}

// LogEvicted logs evicted letters in one line, which names the first. It is called outside of the
// Journal's Begin and End.
func LogEvicted(log *slog.Logger, letters []delivery.Letter) {
	if len(letters) == 0 {
		return
	}
	l := letters[0]
	log.Warn("dead letter dropped: there are too many", "dropped", len(letters),
		"rule", l.Rule, "handler", l.Handler, "key", l.Key.String(), "id", l.ID)
}

// add keeps l, and returns the letters that it evicted. The caller holds mu.
func (b *LetterBox) add(l delivery.Letter) (evicted []delivery.Letter) {
	if old := b.byID[l.ID]; old != nil {
		b.remove(old)
	}
	e := b.place(l)
	b.byID[l.ID] = e
	if l.Delivered.IsZero() {
		about := subject{l.Rule, l.Key}
		b.unmarked[about] = append(b.unmarked[about], e)
		b.hasUnmarked.Store(true)
	}
	b.bytes += letterSize(&l)
	b.count(l.Rule, 1)
	for b.letters.Len() > 1 && (b.letters.Len() > b.opts.MaxLetters || b.bytes > b.opts.MaxBytes) {
		oldest := b.remove(b.letters.Front())
		b.forget(oldest.ID)
		evicted = append(evicted, oldest)
		b.evicted++
	}
	return evicted
}

// place puts l behind all letters that died before it or with it. Attempts that end at the same
// time may be added in any order. The caller holds mu.
func (b *LetterBox) place(l delivery.Letter) *list.Element {
	for e := b.letters.Back(); e != nil; e = e.Prev() {
		if !e.Value.(delivery.Letter).Died.After(l.Died) {
			return b.letters.InsertAfter(l, e)
		}
	}
	return b.letters.PushFront(l)
}

// Delivered marks letters, as DeadLetters says.
func (b *LetterBox) Delivered(rule string, key delta.Key, at time.Time) {
	if !b.hasUnmarked.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	about := subject{rule, key}
	for _, e := range b.unmarked[about] {
		l := e.Value.(delivery.Letter)
		l.Delivered = at
		e.Value = l
	}
	delete(b.unmarked, about)
	b.hasUnmarked.Store(len(b.unmarked) > 0)
}

// List returns all letters, the oldest first.
func (b *LetterBox) List() []delivery.Letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	letters := make([]delivery.Letter, 0, b.letters.Len())
	for e := b.letters.Front(); e != nil; e = e.Next() {
		letters = append(letters, e.Value.(delivery.Letter))
	}
	return letters
}

// Get returns a letter and leaves it in place. ok is false if there is none with that ID.
func (b *LetterBox) Get(id string) (letter delivery.Letter, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byID[id]
	if e == nil {
		return delivery.Letter{}, false
	}
	return e.Value.(delivery.Letter), true
}

// Take removes a letter, to redrive or forget it. ok is false if there is none with that ID.
func (b *LetterBox) Take(id string) (letter delivery.Letter, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byID[id]
	if e == nil {
		return delivery.Letter{}, false
	}
	b.forget(id)
	return b.remove(e), true
}

// Stats returns what the LetterBox holds.
func (b *LetterBox) Stats() LetterBoxStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return LetterBoxStats{
		Letters: b.letters.Len(), Bytes: b.bytes, Dropped: b.evicted, ByRule: maps.Clone(b.byRule),
	}
}

// count adds n to the letters of a rule. The caller holds mu.
func (b *LetterBox) count(rule string, n int) {
	if b.byRule[rule] += n; b.byRule[rule] == 0 {
		delete(b.byRule, rule)
	}
}

// remove removes a letter from memory. The caller holds mu.
func (b *LetterBox) remove(e *list.Element) delivery.Letter {
	l := b.letters.Remove(e).(delivery.Letter)
	delete(b.byID, l.ID)
	b.bytes -= letterSize(&l)
	b.count(l.Rule, -1)
	about := subject{l.Rule, l.Key}
	others := slices.DeleteFunc(b.unmarked[about], func(o *list.Element) bool { return o == e })
	if b.unmarked[about] = others; len(others) == 0 {
		delete(b.unmarked, about)
	}
	b.hasUnmarked.Store(len(b.unmarked) > 0)
	return l
}

// forget deletes the record of a letter. The caller holds mu.
func (b *LetterBox) forget(id string) {
	if b.opts.Store != nil {
		b.opts.Store.DeleteLetter(id)
	}
}

// letterSize returns roughly how many bytes of memory a letter takes.
func letterSize(l *delivery.Letter) int64 {
	d := delivery.Delivery{Delta: l.Delta, Payload: l.Payload, Items: l.Items}
	return delivery.Size(&d) + int64(len(l.ID)+len(l.Reason))
}
