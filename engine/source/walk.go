package source

import (
	"context"
	"time"

	"github.com/informd/informd/engine/delta"
)

// walk does what is due at a time: it tells the consumer its resyncs, and packs what has not changed for
// a while. It works in chunks, between which changes have their turn.
func (i *Informer) walk(ctx context.Context) {
	for ctx.Err() == nil {
		more, due := i.step(i.now())
		if more {
			continue
		}
		var timer <-chan time.Time
		if !due.IsZero() {
			timer = time.After(due.Sub(i.now()))
		}
		select {
		case <-ctx.Done():
		case <-i.poke:
		case <-timer:
		}
	}
}

// rounds are the resyncs of one interval. They are guarded by Informer.mu.
type rounds struct {
	interval time.Duration // as the consumer asked for it
	every    time.Duration // at least a second
	next     time.Time     // when the next round is due
	number   int64         // of the round at hand
	rest     []delta.Key   // what is left of it
}

// step does a chunk of what is due. It reports whether more is due at once, and when something will be
// due again; a zero time means never.
func (i *Informer) step(now time.Time) (more bool, due time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	left := i.parent.tuning.chunk
	due = i.recent.expire(now, left, i.pack)
	more = !due.IsZero() && !due.After(now)
	for _, r := range i.rounds {
		left = i.resync(r, now, left)
		more = more || len(r.rest) > 0
		if due.IsZero() || r.next.Before(due) {
			due = r.next
		}
	}
	return more, due
}

// wake has walk look again.
func (i *Informer) wake() {
	select {
	case i.poke <- struct{}{}:
	default:
	}
}

// resync tells some of a round, at most left objects, and returns how many are left then. A round that
// is due begins when those before it are through: each holds the keys of all objects. It is called
// with i.mu.
func (i *Informer) resync(r *rounds, now time.Time, left int) int {
	if left == 0 {
		return 0
	}
	if len(r.rest) == 0 && !now.Before(r.next) {
		r.next, r.number = now.Add(r.every), now.Unix()
		r.rest = make([]delta.Key, 0, len(i.known))
		for key := range i.known {
			r.rest = append(r.rest, key)
		}
	}
	n := min(left, len(r.rest))
	for _, key := range r.rest[:n] {
		// An object may have gone meanwhile, and of a part there is nothing to tell yet.
		if o := i.known[key]; o != nil && !i.partial {
			i.take(Step{Delta: delta.Delta{Type: delta.Synced, Object: o, Round: r.number}, Resync: r.interval})
		}
	}
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.rest = nil
	}
	return left - n
}
