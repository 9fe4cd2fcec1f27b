package count

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"time"
)

// Bounds of a rule's counts. Beyond them, the least recently used window is dropped.
const (
	MaxWindows = 100_000
	MaxEvents  = 1_000_000 // in all windows
)

// Value identifies a value of by. It is a digest, because the value may be text of a Secret.
type Value [16]byte

// ValueOf returns the Value of a text.
func ValueOf(text string) (v Value) {
	sum := sha256.Sum256([]byte(text))
	copy(v[:], sum[:])
	return v
}

// String returns the value in hexadecimal.
func (v Value) String() string { return hex.EncodeToString(v[:]) }

// ParseValue is the inverse of Value.String.
func ParseValue(text string) (v Value, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(v) {
		return Value{}, false
	}
	return Value(b), true
}

// Hit says for which window an event counts, and when it happened.
type Hit struct {
	Of Value
	At time.Time
}

// Windows are the windows of one rule. They are not safe for concurrent use.
type Windows struct {
	times  int
	within int64 // in milliseconds
	// keep is how long a window is kept to which nothing is added, in milliseconds.
	keep int64
	all  map[Value]*list.Element
	// order has all windows, in the order in which events were last added.
	order  list.List // of *window
	events int       // in all windows
	bounds struct{ windows, events int }
}

// New returns Windows without events. times and within are those of the rule. Events may be late by
// that much: they come so long after they happened.
func New(times int, within, late time.Duration) *Windows {
	w := &Windows{
		times: times, within: within.Milliseconds(), keep: (within + late).Milliseconds(),
		all: make(map[Value]*list.Element),
	}
	w.bounds.windows, w.bounds.events = MaxWindows, MaxEvents
	return w
}

// Change is what an event changes.
type Change struct {
	GoesOn bool   // the event is the nth
	Record []byte // of its window; nil: nothing has changed
	// Over are windows that are over, or that had to go. Lost is how many of them were not over.
	Over []Value
	Lost int
}

// sweep is how many windows that are over go with each event. It is more than one, so that none
// are left in the end.
const sweep = 2

// Add adds an event. An id that was added before changes nothing.
func (w *Windows) Add(m Hit, id string, now time.Time) (c Change) {
	e := w.all[m.Of]
	if e == nil {
		e = w.order.PushBack(&window{of: m.Of})
		w.all[m.Of] = e
	}
	one, isNew := e.Value.(*window), false
	before := len(one.stamps)
	c.GoesOn, isNew = one.add(digest(id), m.At.UnixMilli(), now.UnixMilli(), w.times, w.within)
	w.events += len(one.stamps) - before
	if isNew {
		w.order.MoveToBack(e)
		c.Record = one.record()
		w.clean(&c, now.UnixMilli())
	}
	return c
}

// clean removes windows that are over, and those beyond the bounds.
func (w *Windows) clean(c *Change, now int64) {
	for range sweep {
		first := w.order.Front()
		if !w.isOver(first.Value.(*window), now) {
			break
		}
		w.remove(first)
		c.Over = append(c.Over, first.Value.(*window).of)
	}
	for w.order.Len() > 1 && (w.order.Len() > w.bounds.windows || w.events > w.bounds.events) {
		first := w.order.Front()
		if !w.isOver(first.Value.(*window), now) {
			c.Lost++
		}
		w.remove(first)
		c.Over = append(c.Over, first.Value.(*window).of)
	}
}

// isOver reports whether nothing that comes now can be in a window with what it has, unless that is
// later than it may be.
func (w *Windows) isOver(one *window, now int64) bool { return now-one.touched > w.keep }

// Values returns of which values there are windows.
func (w *Windows) Values() []Value { return slices.Collect(maps.Keys(w.all)) }

func (w *Windows) remove(e *list.Element) {
	one := w.order.Remove(e).(*window)
	delete(w.all, one.of)
	w.events -= len(one.stamps)
}

// Open returns how many windows have events that count, and got one no longer than within ago.
func (w *Windows) Open(now time.Time) (open int) {
	for e := w.order.Back(); e != nil; e = e.Prev() {
		one := e.Value.(*window)
		if now.UnixMilli()-one.touched > w.within {
			break
		}
		if one.counts > 0 {
			open++
		}
	}
	return open
}

// Restore adds windows as they were recorded, with the same times and within. They must be other
// ones than those that are there. It returns the first error, and leaves out what it is about.
func (w *Windows) Restore(records map[Value][]byte) (err error) {
	all := make([]*window, 0, len(records))
	for of, record := range records {
		one, failure := read(of, record)
		if failure != nil {
			err = failure
			continue
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *window) int {
		return cmp.Or(cmp.Compare(a.touched, b.touched), slices.Compare(a.of[:], b.of[:]))
	})
	for _, one := range all {
		w.all[one.of] = w.order.PushBack(one)
		w.events += len(one.stamps)
	}
	return err
}

// digest returns what a window remembers of an id.
func digest(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}
