package source

import (
	"context"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
)

// rounds are the resyncs of one interval. feed.mu guards them.
type rounds struct {
	interval time.Duration // as the consumer asked for it
	every    time.Duration // at least a second
	next     time.Time     // when the next round is due
	number   int64         // of the round at hand
	rest     []delta.Key   // what is left of it
}

// newRounds returns the rounds of each interval, once.
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

// run does what is due at a time, until ctx ends: it tells the consumer its resyncs, and packs what
// has not changed for a while.
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

// tick does a chunk of what is due. It reports whether more is due at once, and when something will
// be due again; a zero time means never.
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

// resync tells some of a round, at most left objects, and returns how many it leaves. A round that
// is due begins when those before it are through: each holds the keys of all objects. It is called
// with f.mu.
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
		// An object may have gone meanwhile, and a part is told when it comes back.
		if o := f.known[key]; o != nil && len(f.parts) == 0 {
			f.take(Step{Delta: delta.Delta{Type: delta.Synced, Object: o, Round: r.number}, Resync: r.interval})
		}
	}
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.rest = nil
	}
	return left - n
}
