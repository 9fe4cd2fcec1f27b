package action

import (
	"container/list"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// When a write counts as undone again, when that slows its rule down, and when writes in turns with
// somebody else are too many.
const (
	undoneWithin = 10 * time.Minute // since it took effect the time before
	soon         = time.Minute      // undone that soon, it counts for the delay
	undoneOften  = slowDepth        // times in a row, before informd says so and slows the rule
	maxReversals = 8192             // rules and objects; beyond it, the oldest are forgotten
	maxWays      = 4                // different writes of a rule to an object

	// turnsOften is how many writes of a rule to an object within turnsWithin may be sensible, if
	// each follows somebody else's change. Hardly anything changes an object more than once a
	// second for a whole minute, except in reaction to the rule: a leader renews its Lease every
	// two seconds.
	turnsOften  = 300
	turnsWithin = time.Minute
)

// reversals finds writes to which somebody else reacts again and again. Two informds that want
// different things of an object do that to each other, and neither sees the other's rules. There
// are two signs of it:
//
//   - The write is undone: a rule makes the very same write, it takes effect, and in between
//     somebody else has changed the object.
//   - The rule and somebody else take turns: the write differs each time, because it holds the
//     time of day, and follows somebody else's change more often than anything sensible does.
//
// The zero reversals is ready. It is safe for concurrent use.
type reversals struct {
	seed maphash.Seed // set with the first write

	mu     sync.Mutex // guards all below; a leaf
	of     map[reversedAt]*list.Element
	oldest list.List              // of *reversed, by their last write
	now    map[string]undoneWrite // by rule: the last one that was found
}

// reversedAt is what a rule writes to.
type reversedAt struct {
	rule string
	at   target
}

// reversed is what a rule wrote to an object.
type reversed struct {
	reversedAt
	ways []way // at most maxWays

	// turns are the writes since a time, within turnsWithin, that followed somebody else's change.
	// by is the field manager that made most of these changes, if one did, with its lead in votes.
	turns int
	since time.Time
	by    string
	votes int
}

// way is one write that a rule makes to an object.
type way struct {
	digest uint64 // of the action
	made   string // the version that it made last
	last   time.Time
	times  int // how often in a row it was undone
	quick  int // how often in a row soon
}

// undoneWrite is a write to which somebody else reacts.
type undoneWrite struct {
	resource, key string
	reaction
	next, until time.Time // when a delayed event goes on, if it waits; when to forget it
}

// reaction is what somebody else makes of a rule's write.
type reaction struct {
	times int    // how often in a row the write was undone
	turns int    // how many writes to the object have followed somebody else's change lately
	by    string // the field manager of most of these changes; "" if it is not known
}

func (o reaction) isUndone() bool { return o.times >= undoneOften }

func (o reaction) isInTurns() bool { return o.turns > turnsOften }

// effect is a write that has taken effect.
type effect struct {
	from, made string // the versions before and after it
	onOurs     bool   // a rule of this informd had made the one before
	other      string // the field manager that changed the object last before it, or ""
}

// note records a write of a rule, and returns what somebody else makes of it.
func (r *reversals) note(now time.Time, rule string, a handler.Action, e effect) reaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.seed = maphash.MakeSeed()
		r.of, r.now = make(map[reversedAt]*list.Element), make(map[string]undoneWrite)
	}
	o := r.reversed(reversedAt{rule, targetOf(resourceOf(a.Resource), keyOf(a))})
	isOwn := o.made(e.from)
	if !isOwn && !e.onOurs {
		o.turn(now, e.other)
	}
	w := o.way(r.digest(a))
	gap := now.Sub(w.last)
	switch {
	case w.made == "", gap > undoneWithin, isOwn:
		w.times, w.quick = 0, 0
	case gap <= max(soon, 2*w.delay()):
		w.times, w.quick = w.times+1, w.quick+1
	default:
		w.times, w.quick = w.times+1, 0
	}
	w.made, w.last = e.made, now
	is := reaction{times: w.times, turns: o.turns, by: o.by}
	until := soon
	switch {
	case is.isUndone():
		until = max(2*gap, 2*w.delay(), soon)
	case !is.isInTurns():
		return is
	}
	r.now[rule] = undoneWrite{
		resource: object.ResourceName(resourceOf(a.Resource)), key: keyOf(a).String(),
		reaction: is, next: now.Add(w.delay()), until: now.Add(until),
	}
	return is
}

// turn counts a write that follows a change of somebody else: of the field manager other, or "".
func (o *reversed) turn(now time.Time, other string) {
	if now.Sub(o.since) >= turnsWithin {
		o.since, o.turns, o.votes = now, 0, 0
	}
	o.turns++
	switch { // whoever has more than half of the votes is left in the end
	case o.votes == 0:
		o.by, o.votes = other, 1
	case o.by == other:
		o.votes++
	default:
		o.votes--
	}
}

func (r *reversals) digest(a handler.Action) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	for _, part := range [][]byte{
		[]byte(a.Verb), []byte(a.Subresource), []byte(a.Resource.Version), a.Object, a.Patch,
	} {
		fmt.Fprintf(&h, "%d ", len(part))
		_, _ = h.Write(part) // never fails
	}
	return h.Sum64()
}

// reversed returns what a rule wrote to an object, and keeps the bound. The caller holds mu.
func (r *reversals) reversed(at reversedAt) *reversed {
	e := r.of[at]
	if e == nil {
		if len(r.of) == maxReversals {
			first := r.oldest.Front()
			delete(r.of, first.Value.(*reversed).reversedAt)
			r.oldest.Remove(first)
		}
		e = r.oldest.PushBack(&reversed{reversedAt: at})
		r.of[at] = e
	}
	r.oldest.MoveToBack(e)
	return e.Value.(*reversed)
}

// made reports whether the rule itself has brought the object into a version, or deleted it if
// version is empty: nobody has undone its last write then.
func (o *reversed) made(version string) bool {
	var last way
	for _, w := range o.ways {
		if version != "" && w.made == version {
			return true
		}
		if !w.last.Before(last.last) {
			last = w
		}
	}
	return version == "" && strings.HasPrefix(last.made, DeletionOf(""))
}

// way returns what is known of a write, or a new one in the place of the oldest.
func (o *reversed) way(digest uint64) *way {
	oldest := 0
	for i, w := range o.ways {
		if w.digest == digest {
			return &o.ways[i]
		}
		if w.last.Before(o.ways[oldest].last) {
			oldest = i
		}
	}
	if len(o.ways) < maxWays {
		oldest = len(o.ways)
		o.ways = append(o.ways, way{})
	}
	o.ways[oldest] = way{digest: digest}
	return &o.ways[oldest]
}

// delay returns how long the next event of the object waits, from when the write was made.
func (w *way) delay() time.Duration {
	if w.quick < undoneOften {
		return 0
	}
	return delayAt(w.quick)
}

// delay returns how long to hold back an event of an object for a rule whose writes to it somebody
// else undoes.
func (r *reversals) delay(now time.Time, rule string, ev *handler.Event) (d time.Duration) {
	key := delta.Key{Namespace: ev.Namespace, Name: ev.Name}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.of[reversedAt{rule, targetOf(resourceOf(ev.Resource), key)}]
	if e == nil {
		return 0
	}
	for _, w := range e.Value.(*reversed).ways {
		if now.Sub(w.last) <= max(soon, 2*w.delay()) {
			d = max(d, w.delay())
		}
	}
	return d
}

// undone says that somebody else reacts to what the rule writes, and how, or returns "".
func (r *reversals) undone(now time.Time, rule string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	u, ok := r.now[rule]
	if !ok {
		return ""
	}
	if now.After(u.until) {
		delete(r.now, rule)
		return ""
	}
	if !u.isUndone() {
		who := "somebody else"
		if u.by != "" {
			who += " (" + u.by + ")"
		}
		return fmt.Sprintf("takes turns: it and %s change %s %s, %d times within a minute; "+
			"let when skip the other's changes", who, u.resource, u.key, u.turns)
	}
	text := fmt.Sprintf("is undone: somebody else reverts what it writes to %s %s, %d times in a row",
		u.resource, u.key, u.times)
	if left := u.next.Sub(now); left > 0 {
		text += fmt.Sprintf("; slowed, next in %v", max(left.Round(time.Second), time.Second))
	}
	return text
}
