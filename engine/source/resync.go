package source

import (
	"context"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

const (
	// turn is how long a round keeps changes of its informer waiting.
	turn = 250 * time.Microsecond
	// lull is how long a round rests after each turn, as a multiple of the time the turn took. So a
	// round takes at most a quarter of a processor from other informers.
	lull = 3
	// longestSleep bounds how long a timer runs, because timers stand still while a machine is
	// suspended, and do not follow a clock that is set.
	longestSleep = 30 * time.Second
)

// rounds are the resyncs of one interval, guarded by feed.mu.
type rounds struct {
	interval time.Duration // as the consumer requested it
	every    time.Duration // the interval, but at least a second
	next     time.Time     // when the next round is due
}

// round is a resync under way, guarded by feed.mu.
type round struct {
	of     *rounds   // nil if no round is under way
	number int64     // the round's start in Unix seconds
	rest   []string  // keys of objects that it has yet to hand over
	due    time.Time // when its next turn is
}

// newRounds returns one rounds for each distinct interval above 0.
func newRounds(intervals []time.Duration, now time.Time) []*rounds {
	intervals = slices.Clone(intervals)
	slices.Sort(intervals)
	var all []*rounds
	for _, interval := range slices.Compact(intervals) {
		if interval > 0 {
			every := max(interval, time.Second)
			all = append(all, &rounds{interval: interval, every: every, next: now.Add(every)})
		}
	}
	return all
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
	if due = f.recent.expire(now, f.chunk, f.pack); due.After(now) {
		// Packing in between would wake up for every object.
		due = later(due, now.Add(recentFor/4))
	}
	due = earlier(due, f.resync(f.clock.Now()))
	if f.caughtUp && f.consumer != nil {
		f.guard(func() { due = earlier(due, f.consumer.Tick(f.clock.Now(), f.get)) })
	}
	return due
}

func (f *feed) get(key string) *object.Object { return f.known[key] }

// earlier returns the earlier of two times; a zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// resync does a turn of a round if one is due, and returns when the next is; a zero time means
// never. A round begins only when the one before it is done, because each holds the keys of all
// objects. The one that has been due for longest comes first. resync is called with f.mu held.
func (f *feed) resync(began time.Time) (due time.Time) {
	if len(f.rounds) == 0 {
		return time.Time{}
	}
	byNext := func(a, b *rounds) int { return a.next.Compare(b.next) }
	if f.round.of == nil {
		first := slices.MinFunc(f.rounds, byNext)
		if began.Before(first.next) {
			return first.next
		}
		f.begin(first, began)
	}
	if began.Before(f.round.due) {
		return f.round.due // called for other work
	}
	handed := f.handOver(began)
	next := slices.MinFunc(f.rounds, byNext).next
	left := len(f.round.rest)
	if left == 0 {
		f.round = round{}
		return next
	}
	// Rest less if the next round would otherwise be late.
	now := f.clock.Now()
	took := now.Sub(began)
	spare := next.Sub(now)/time.Duration(left)*time.Duration(handed) - took
	f.round.due = now.Add(max(0, min(lull*took, spare)))
	return f.round.due
}

// begin begins a round.
func (f *feed) begin(r *rounds, now time.Time) {
	r.next = now.Add(r.every)
	f.round = round{of: r, number: now.Unix(), rest: make([]string, 0, len(f.known))}
	for key := range f.keys() {
		f.round.rest = append(f.round.rest, key)
	}
}

// handOver hands over objects of the round for a turn that began at began, and returns how many it
// has dealt with.
func (f *feed) handOver(began time.Time) (n int) {
	r := &f.round
	for len(r.rest) > 0 && n < f.chunk && (n == 0 || f.clock.Since(began) < turn) {
		o := f.known[r.rest[0]]
		r.rest = r.rest[1:]
		n++
		// Skip an object that has gone meanwhile, and all objects while some are parts: a part is
		// handed over when it comes back.
		if o != nil && len(f.parts) == 0 {
			d := delta.Delta{Type: delta.Synced, Object: o, Round: r.number}
			f.take(Step{Delta: d, Resync: r.of.interval})
		}
	}
	return n
}
