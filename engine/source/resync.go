package source

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

const (
	// heldPause is how long a round waits before it asks again for objects that its consumer holds.
	heldPause = time.Second
	// longestSleep bounds how long a timer runs, because timers stand still while a machine is
	// suspended, and do not follow a clock that is set.
	longestSleep = 30 * time.Second
)

// rounds are the rounds of one timetable, guarded by feed.mu.
type rounds struct {
	table timing.Timetable
	next  time.Time // when the next round begins; zero if none does
	// last is the number of the last round, in this run or before it; 0 if there was none.
	last    int64
	again   bool         // the last round did not get to its end: it begins once more
	atStart bool         // the next round is the one of the start
	due     atomic.Int64 // next, as Unix time in milliseconds; 0 if none begins; needs no lock
	held    held
}

// held are the objects of the last round that its consumer holds, guarded by feed.mu.
type held struct {
	keys []string
	left int       // how many keys this pass has not offered to the consumer yet
	look time.Time // when to offer it the next one
}

// round is a round under way, guarded by feed.mu.
type round struct {
	of   *rounds   // nil if no round is under way
	rest []string  // keys of objects that it has yet to hand over
	due  time.Time // when its next turn is
}

// newRounds returns one rounds for each timetable: that of before if it has one.
func newRounds(tables []timing.Timetable, before []*rounds, now time.Time) []*rounds {
	var all []*rounds
	for _, table := range tables {
		isThere := func(r *rounds) bool { return r.table == table }
		if slices.ContainsFunc(all, isThere) {
			continue
		}
		if n := slices.IndexFunc(before, isThere); n >= 0 {
			all = append(all, before[n])
			continue
		}
		r := &rounds{table: table, atStart: table.AtStart()}
		r.begins(now, now)
		all = append(all, r)
	}
	return all
}

// begins sets when the next round begins: the first one after a time, or at once.
func (r *rounds) begins(after, now time.Time) {
	r.next = r.table.Next(after)
	if r.atStart || r.again {
		r.next = now
	}
	r.due.Store(0)
	if !r.next.IsZero() {
		r.due.Store(r.next.UnixMilli())
	}
}

// number returns the number of a round that begins now. ok is false if there was that round
// already, because the clock was set back.
func (r *rounds) number(now time.Time) (number int64, ok bool) {
	switch {
	case r.again:
		// Of a schedule, another moment may have come since the round that did not get to its end.
		if schedule, ok := r.table.(*timing.Schedule); ok && !schedule.SkipsMissed {
			if number, ok = r.table.Number(now, r.last); ok {
				return number, true
			}
		}
		return r.last, true
	case r.atStart:
		return max(now.Unix(), r.last+1), true
	}
	return r.table.Number(now, r.last)
}

func (f *feed) roundsOf(table timing.Timetable) *rounds {
	for _, r := range f.allRounds() {
		if r.table == table {
			return r
		}
	}
	return nil
}

func (f *feed) lastRound(of timing.Timetable, number int64, isOver bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.roundsOf(of); r != nil && number > r.last {
		r.last, r.again = number, !isOver && !r.atStart
		// A time in the future, from before the clock was set, counts as now. That the clock is set
		// from now on does not move the next resync: last has the monotonic reading of now.
		now := f.clock.Now()
		last := now.Add(-max(0, now.Round(0).Sub(time.Unix(number, 0))))
		r.begins(last, now)
	}
}

// allRounds returns the rounds of the consumer. It takes no lock.
func (f *feed) allRounds() []*rounds {
	if all := f.rounds.Load(); all != nil {
		return *all
	}
	return nil
}

// nextRound takes no lock.
func (f *feed) nextRound(of timing.Timetable) time.Time {
	r := f.roundsOf(of)
	if r == nil || r.due.Load() == 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.due.Load())
}

// run hands the consumer its resyncs, and packs objects that have not changed for a while, until
// ctx ends.
func (f *feed) run(ctx context.Context) {
	for ctx.Err() == nil {
		var timer <-chan time.Time
		if due := f.tick(); !due.IsZero() {
			wait := due.Sub(f.clock.Now())
			if wait <= 0 {
				continue
			}
			timer = time.After(min(wait, longestSleep))
		}
		select {
		case <-ctx.Done():
		case <-f.poke:
		case <-timer:
		}
	}
}

// tick does a turn of the work that is due, and returns when work will be due again. A zero time
// means never.
func (f *feed) tick() (due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if due = f.recent.expire(now, f.chunk, f); due.After(now) {
		// Packing in between would wake up for every object.
		due = later(due, now.Add(youngFor/4))
	}
	due = timing.Earlier(due, f.resync(f.clock.Now()))
	due = timing.Earlier(due, f.handHeld(f.clock.Now()))
	if f.caughtUp && f.consumer != nil {
		f.guard(func() { due = timing.Earlier(due, f.consumer.Tick(f.clock.Now(), f.get)) })
	}
	return due
}

func (f *feed) get(key string) *object.Object { return f.known[key] }

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// resync does a turn of a round if one is due, and returns when the next is; a zero time means
// never. A round waits while the informer has trouble, so that it hands over what is there. A round
// begins only when the one before it is done, because each holds the keys of all
// objects. The one that has been due for longest comes first. resync is called with f.mu held.
func (f *feed) resync(began time.Time) (due time.Time) {
	if f.round.of == nil {
		first := f.firstRounds()
		if first == nil || !f.caughtUp {
			return time.Time{}
		}
		if began.Before(first.next) {
			return first.next
		}
		if f.isTroubled() {
			return began.Add(timing.Stale)
		}
		if f.begin(first, began); f.round.of == nil {
			return first.next
		}
	}
	if began.Before(f.round.due) {
		return f.round.due // called for other work
	}
	handed := f.handOver(began)
	left := len(f.round.rest)
	if left == 0 {
		f.end()
		if first := f.firstRounds(); first != nil {
			return first.next
		}
		return time.Time{}
	}
	// Rest less if the next round would otherwise be late.
	now := f.clock.Now()
	took := now.Sub(began)
	rest := timing.Lull * took
	if first := f.firstRounds(); first != nil {
		spare := first.next.Sub(now)/time.Duration(left)*time.Duration(handed) - took
		rest = max(0, min(rest, spare))
	}
	f.round.due = now.Add(rest)
	return f.round.due
}

// firstRounds returns the rounds of which the next begins first, or nil if none begins.
func (f *feed) firstRounds() (first *rounds) {
	for _, r := range f.allRounds() {
		if !r.next.IsZero() && (first == nil || r.next.Before(first.next)) {
			first = r
		}
	}
	return first
}

// begin begins a round, unless there was the same one already.
func (f *feed) begin(r *rounds, now time.Time) {
	number, ok := r.number(now)
	r.again, r.atStart = false, false
	if !ok {
		if r.begins(time.Unix(r.last, 0), now); !r.next.After(now) {
			r.begins(now, now)
		}
		return
	}
	r.begins(now, now)
	r.last, r.held = number, held{}
	f.round = round{of: r, rest: slices.AppendSeq(make([]string, 0, len(f.known)), f.keys())}
	f.guard(func() { f.consumer.Round(r.table, r.last, false) })
}

// end ends the round under way, unless its consumer holds objects. These wait beside other rounds.
func (f *feed) end() {
	r := f.round.of
	f.round = round{}
	f.guard(func() { f.consumer.Handed(r.table) })
	if r.held.keys == nil {
		f.over(r)
		return
	}
	r.held.left, r.held.look = len(r.held.keys), f.clock.Now().Add(heldPause)
}

func (f *feed) over(r *rounds) {
	f.guard(func() { f.consumer.Round(r.table, r.last, true) })
}

// handHeld does a turn of handing over objects that the consumer held, if one is due, and returns
// when the next is; a zero time means never. It is called with f.mu held.
func (f *feed) handHeld(began time.Time) (due time.Time) {
	for _, r := range f.allRounds() {
		if r.held.keys == nil {
			continue
		}
		if !began.Before(r.held.look) {
			f.handSomeHeld(r, began)
		}
		if r.held.keys != nil {
			due = timing.Earlier(due, r.held.look)
		}
	}
	return due
}

// handSomeHeld asks for held objects of a round, for a turn that began at began.
func (f *feed) handSomeHeld(r *rounds, began time.Time) {
	h := &r.held
	for n := 0; h.left > 0 && n < f.chunk && (n == 0 || f.clock.Since(began) < timing.Turn); n++ {
		key := h.keys[0]
		h.keys, h.left = h.keys[1:], h.left-1
		if !f.hand(r, key) {
			h.keys = append(h.keys, key)
		}
	}
	now := f.clock.Now()
	switch {
	case len(h.keys) == 0:
		*h = held{}
		f.over(r)
	case h.left > 0:
		h.look = now.Add(timing.Lull * now.Sub(began))
	default:
		h.left, h.look = len(h.keys), now.Add(heldPause)
	}
}

// handOver hands over objects of the round for a turn that began at began, and returns how many it
// has dealt with.
func (f *feed) handOver(began time.Time) (n int) {
	r := &f.round
	for len(r.rest) > 0 && n < f.chunk && (n == 0 || f.clock.Since(began) < timing.Turn) {
		key := r.rest[0]
		r.rest = r.rest[1:]
		n++
		if !f.hand(r.of, key) {
			r.of.held.keys = append(r.of.held.keys, key)
		}
	}
	return n
}

// hand hands over an object of a round, unless its consumer holds it. It skips an object that has
// gone meanwhile, and all objects while some are parts: a part is handed over when it comes back.
func (f *feed) hand(r *rounds, key string) (done bool) {
	o := f.known[key]
	if o == nil || len(f.parts) > 0 {
		return true
	}
	isHeld := false
	f.guard(func() { isHeld = f.consumer.Holds(r.table, key) })
	if !isHeld {
		d := delta.Delta{Type: delta.Synced, Object: o, Round: r.last}
		f.take(Step{Delta: d, Round: r.table})
	}
	return !isHeld
}
