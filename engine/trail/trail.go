// Package trail remembers what became of the last changes of a rule: what it selected and what not,
// which events were sent, and how they were answered. It holds names and versions of objects, and
// nothing of their content.
//
// A [Trail] is a ring: beyond its bound, a new entry takes the place of the oldest. Adding an entry
// costs some tens of nanoseconds, and nothing is allocated once the ring is full.
package trail

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Verdict says what became of a change, or of the delivery of an event.
type Verdict uint8

// The verdicts on a change.
const (
	// Selected means that the change is an event, which goes to the lane.
	Selected Verdict = iota + 1
	// Gathered means that the change waits for the event of its group.
	Gathered
	// Undecided means that when and payload are evaluated at the delivery.
	Undecided
	// ByEvents means that the rule's events leave out changes of this type.
	ByEvents
	// ByWhen means that when was false.
	ByWhen
	// ByCount means that the change counts, and is not the nth.
	ByCount
	// ByRounds means that the rule sees objects in its rounds only.
	ByRounds
	// Own means that the rule made the change itself.
	Own
	// Failed means that where, due or when failed.
	Failed
	// Waits means that the object waits to become a member.
	Waits
	// Void means that the change and the one that waited before it cancelled each other out: the
	// object came and went.
	Void
)

// The verdicts on a delivery.
const (
	// Sent means that an attempt began: the handler gets the event.
	Sent Verdict = iota + 32
	// Done means that the handler acknowledged the event.
	Done
	// Retried means that the attempt failed, and that the event is sent again.
	Retried
	// Lost means that the handler went away, and that the event is sent again.
	Lost
	// Rejected means that the handler refused the event: it is a dead letter.
	Rejected
	// Dead means that the event became a dead letter after its last attempt.
	Dead
	// Cancelled means that the attempt ended because informd stopped, or a reload ended the handler.
	Cancelled
	// Unmade means that the event, or the rule's own actions, could not be made: it is a dead letter.
	Unmade
	// Outdated means that informd gave up the event because the object was changed or deleted since.
	Outdated
	// Acts means that the rule begins to perform its own actions.
	Acts
	// Acted means that the rule's own actions are performed.
	Acted
	// Pruned means that the rule had no action to perform, and pruned.
	Pruned
	// Tried means that a dry run has logged what would have been delivered or performed.
	Tried
	// Idle means that the rule had no action to perform: each if was false, or its forEach empty.
	Idle
	// Unchanged means that the rule's own actions changed nothing: all was already as they ask.
	Unchanged
	// Vanished means that the rule's own actions changed nothing: an object that one of them is about
	// is gone.
	Vanished
)

var names = map[Verdict]string{
	Selected: "selected", Gathered: "gathered", Undecided: "undecided", ByEvents: "events",
	ByWhen: "when", ByCount: "count", ByRounds: "rounds", Own: "own", Failed: "failed",
	Waits: "waits", Void: "void",
	Sent: "sent", Done: "done", Retried: "retry", Lost: "lost", Rejected: "reject", Dead: "dead",
	Cancelled: "cancelled", Unmade: "unmade", Outdated: "outdated",
	Acts: "acts", Acted: "acted", Pruned: "pruned", Tried: "tried", Idle: "idle",
	Unchanged: "unchanged", Vanished: "gone",
}

// String returns the name that users see in JSON.
func (v Verdict) String() string { return names[v] }

// Entry is what became of one change or of one attempt.
type Entry struct {
	Number  uint64 // of all entries of one Counter, in the order in which they were added
	At      time.Time
	Verdict Verdict
	Type    delta.Type
	Key     delta.Key
	UID     string
	Version string // the object's resourceVersion
	Round   int64  // see delta.Delta, as for Occasion
	Numbers

	Occasion uint32
}

// Numbers are the part of an Entry that attempts alone have.
type Numbers struct {
	Rule     string // the name of the rule with which the event's id begins
	Attempt  int
	Duration time.Duration // of the attempt; 0 if it has just begun
	Latency  time.Duration // since the first change that the event includes was selected
	// Reason says why the attempt failed, if it did and comes again, in at most 256 bytes.
	// IsConfidential says that it may quote a Secret.
	Reason         string
	IsConfidential bool
}

// ID returns the id of the event under a rule, as delta.Delta does. An attempt has the id that it had
// before the rule was renamed.
func (e *Entry) ID(rule string) string {
	return delta.ID(cmp.Or(e.Rule, rule), e.UID, e.Version, e.Type, e.Occasion, e.Round)
}

// Counter numbers the entries of several Trails, from 2 on. So what comes after 1 is all that comes.
type Counter struct{ added atomic.Uint64 }

// Last returns the number of the last entry, or 1 if there is none. It is never 0: whoever goes on
// after it gets the first entry too.
func (c *Counter) Last() uint64 { return c.added.Load() + 1 }

// Trail holds the last entries of one rule. It is safe for concurrent use. The nil Trail remembers
// nothing.
type Trail struct {
	counter *Counter
	bound   int

	mu      sync.Mutex // a leaf: may be taken with any other lock held
	ring    []record   // guarded by mu
	numbers []Numbers  // of the records of ring; empty until an attempt is added; guarded by mu
	next    int        // where the next entry goes; guarded by mu
	gone    uint64     // the number of the newest entry that another one has replaced; guarded by mu
}

// record is an Entry as a Trail keeps it, without its Numbers. There are many of them, and each
// addition goes to another place in memory, so they are small.
type record struct {
	number  uint64
	at      int64 // Unix time in nanoseconds
	object  object.ID
	round   int64
	verdict Verdict
	kind    delta.Type

	occasion uint32
}

// A Trail has room for firstRoom entries at first, because of many rules most are quiet, and for
// secondRoom once it has more.
const (
	firstRoom  = 4
	secondRoom = 16
)

// New returns a Trail of at most bound entries.
func New(c *Counter, bound int) *Trail { return &Trail{counter: c, bound: max(bound, 1)} }

// Add adds what became of a change.
func (t *Trail) Add(d delta.Delta, v Verdict, at time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.add(d, v, at); i < len(t.numbers) {
		t.numbers[i] = Numbers{}
	}
}

// AddAttempt adds what became of an attempt.
func (t *Trail) AddAttempt(d delta.Delta, v Verdict, at time.Time, n Numbers) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.add(d, v, at)
	if len(t.numbers) <= i {
		t.numbers = append(t.numbers, make([]Numbers, cap(t.ring)-len(t.numbers))...)
	}
	t.numbers[i] = n
}

// add adds an entry without Numbers, and returns its place in the ring. t.mu is held.
func (t *Trail) add(d delta.Delta, v Verdict, at time.Time) (place int) {
	if place = len(t.ring); place < t.bound {
		switch place {
		case 0:
			t.ring = make([]record, 0, min(t.bound, firstRoom))
		case firstRoom:
			t.ring = slices.Grow(t.ring, min(t.bound, secondRoom)-place)
		}
		t.ring = append(t.ring, record{})
	} else {
		place = t.next
		t.gone = t.ring[place].number
		t.next = (place + 1) % t.bound
	}
	t.ring[place] = record{
		number: t.counter.added.Add(1) + 1, at: at.UnixNano(), object: d.Object.ID, round: d.Round,
		verdict: v, kind: d.Type, occasion: d.Occasion,
	}
	return place
}

// entry returns the entry at a place in the ring. t.mu is held.
func (t *Trail) entry(place int) Entry {
	r := &t.ring[place]
	e := Entry{
		Number: r.number, At: time.Unix(0, r.at), Verdict: r.verdict, Type: r.kind,
		Key: delta.Key{Namespace: r.object.Namespace(), Name: r.object.Name()},
		UID: r.object.UID(), Version: r.object.ResourceVersion(), Round: r.round,
		Occasion: r.occasion,
	}
	if place < len(t.numbers) {
		e.Numbers = t.numbers[place]
	}
	return e
}

// After returns the entries after a number, the oldest first. missed says that some of them are gone.
func (t *Trail) After(number uint64) (entries []Entry, missed bool) {
	return t.choose(func(e *Entry) bool { return e.Number > number }), t.lastGone() > number
}

// Of returns the entries about an object, the oldest first.
func (t *Trail) Of(key delta.Key) []Entry {
	return t.choose(func(e *Entry) bool { return e.Key == key })
}

// Since returns from when on the Trail remembers everything, if it has done so from began on at most:
// began, or once entries have been replaced, the time of the oldest that is left.
func (t *Trail) Since(began time.Time) time.Time {
	if t == nil {
		return began
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone == 0 {
		return began
	}
	return time.Unix(0, t.ring[t.next].at)
}

func (t *Trail) lastGone() uint64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone
}

// choose returns the entries that chosen accepts, the oldest first.
func (t *Trail) choose(chosen func(*Entry) bool) (entries []Entry) {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.ring {
		if e := t.entry((t.next + i) % len(t.ring)); chosen(&e) {
			entries = append(entries, e)
		}
	}
	return entries
}
