package source

import (
	"context"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
)

// rounds are the resyncs of one interval, guarded by feed.mu.
type rounds struct {
	interval time.Duration // as the consumer requested it
	every    time.Duration // the interval, but at least a second
	next     time.Time     // when the next round is due
	number   int64         // of the current round; its start in Unix seconds
	rest     []delta.Key   // objects that the current round has yet to hand over
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
		more, due := f.tick(f.clock.Now())
		if more {
			continue
		}
		var timer <-chan time.Time
		if !due.IsZero() {
			timer = time.After(due.Sub(f.clock.Now()))
		}
		select {
		case <-ctx.Done():
		case <-f.poke:
		case <-timer:
		}
	}
}

// tick does a chunk of the work that is due. more is true if more work is due at once. due says
// when work will be due again; a zero time means never.
func (f *feed) tick(now time.Time) (more bool, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.chunk
	due = f.recent.expire(now, left, f.pack)
	more = !due.IsZero() && !due.After(now)
	for _, r := range f.rounds {
		left = f.resync(r, now, left)
		more = more || len(r.rest) > 0
		if due.IsZero() || r.next.Before(due) {
			due = r.next
		}
	}
	return more, due
}

// resync hands over at most left objects of a round, and returns how many of left remain. A round
// that is due begins only when the rounds before it are done, because each holds the keys of all
// objects. resync is called with f.mu held.
func (f *feed) resync(r *rounds, now time.Time, left int) int {
	if left == 0 {
		return 0
	}
	if len(r.rest) == 0 && !now.Before(r.next) {
		r.next, r.number = now.Add(r.every), now.Unix()
		r.rest = make([]delta.Key, 0, len(f.known))
		for key := range f.known {
			r.rest = append(r.rest, key)
		}
	}
	n := min(left, len(r.rest))
	for _, key := range r.rest[:n] {
		// Skip an object that has gone meanwhile, and all objects while some are parts: a part is
		// handed over when it comes back.
		if o := f.known[key]; o != nil && len(f.parts) == 0 {
			d := delta.Delta{Type: delta.Synced, Object: o, Round: r.number}
			f.take(Step{Delta: d, Resync: r.interval})
		}
	}
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.rest = nil
	}
	return left - n
}
