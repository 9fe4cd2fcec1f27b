package source

import (
	"context"
	"time"

	"github.com/informd/informd/engine/delta"
)

// walk serves what is not a change: to listeners that have joined, what was there, and to each listener its resyncs; and it
// packs what has not changed for a while. It goes in chunks, between which changes have their turn.
func (i *Informer) walk(ctx context.Context) {
	for ctx.Err() == nil {
		more, due := i.step(time.Now())
		if more {
			continue
		}
		var timer <-chan time.Time
		if !due.IsZero() {
			timer = time.After(time.Until(due))
		}
		select {
		case <-ctx.Done():
		case <-i.poke:
		case <-timer:
		}
	}
}

// step serves a chunk, and tells whether there is more to do at once, and when there will be something to do again;
// never, if due is zero.
func (i *Informer) step(now time.Time) (more bool, due time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.record.Begin()
	defer i.record.End()
	left := i.parent.tuning.chunk
	due = i.recent.expire(now, left, i.pack)
	more = !due.IsZero() && !due.After(now)
	for _, l := range i.listeners {
		left = i.join(l, left)
		left = i.resync(l, now, left)
		more = more || len(l.joining) > 0 || len(l.rest) > 0
		if !l.next.IsZero() && (due.IsZero() || l.next.Before(due)) {
			due = l.next
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

func (i *Informer) join(l *listener, left int) int {
	for key := range l.joining {
		if left == 0 {
			return 0
		}
		left--
		delete(l.joining, key)
		i.sync(l, key, 0)
	}
	l.joining = nil
	return left
}

func (i *Informer) resync(l *listener, now time.Time, left int) int {
	if left == 0 {
		return 0 // a round that is due begins when those before it are through: each holds the keys of all objects
	}
	if len(l.rest) == 0 && !l.next.IsZero() && !now.Before(l.next) {
		l.next, l.round = now.Add(l.Resync), now.Unix()
		l.rest = make([]delta.Key, 0, len(i.known))
		for key := range i.known {
			l.rest = append(l.rest, key)
		}
	}
	n := min(left, len(l.rest))
	for _, key := range l.rest[:n] {
		i.sync(l, key, l.round)
	}
	if l.rest = l.rest[n:]; len(l.rest) == 0 {
		l.rest = nil
	}
	return left - n
}

// sync, with i.mu, tells one listener of an object as it is, if it still is, and all of it is known.
func (i *Informer) sync(l *listener, key delta.Key, round int64) {
	if o := i.known[key]; o != nil && !i.partial {
		i.counts.deltas[delta.Synced].Add(1)
		i.tell(l, delta.Delta{Type: delta.Synced, Object: o, Round: round}, nil)
	}
}
