package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	minLoadPause = 100 * time.Millisecond
	maxLoadPause = 5 * time.Second
)

// hungry holds the lanes that have something to load from their stores, each at most once, in turn.
type hungry struct {
	mu    sync.Mutex // a leaf: may be taken with other locks held
	lanes []*Lane    // guarded by mu
	// wake wakes the loader when lanes has one. One message is enough for all.
	wake chan struct{}
}

// offer notes that a lane has something to load. It does not block.
func (h *hungry) offer(l *Lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.isHungry {
		return
	}
	l.isHungry = true
	h.lanes = append(h.lanes, l)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// next takes the first lane that may load now. If there is none, wait is the time until there is
// one, or 0 if no lane has anything to load.
func (h *hungry) next(now time.Time) (l *Lane, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, l := range h.lanes {
		pause := l.loadAfter.Sub(now)
		if pause <= 0 {
			h.lanes = slices.Delete(h.lanes, i, i+1)
			l.isHungry = false
			return l, 0
		}
		if wait == 0 || pause < wait {
			wait = pause
		}
	}
	return nil, wait
}

// load loads deliveries that only the stores hold, as they are needed, until ctx ends. Lanes take
// turns. A slow store delays the other loads for this handler, but nothing that is in memory.
func (d *Dispatcher) load(ctx context.Context) {
	for ctx.Err() == nil {
		lane, wait := d.hungry.next(d.opts.Clock.Now())
		if lane != nil {
			lane.load()
			continue
		}
		var over <-chan time.Time
		if wait > 0 {
			over = time.After(wait)
		}
		select {
		case <-d.hungry.wake:
		case <-over:
		case <-ctx.Done():
		}
	}
}

// load loads deliveries of one object. After an error it leaves the lane alone for a while. Only
// the loader calls it.
func (l *Lane) load() {
	if l.newest() != l {
		return
	}
	more, err := l.queue.Refill(l.dispatcher.opts.Journal.Begin, l.dispatcher.opts.Journal.End)
	now := l.dispatcher.opts.Clock.Now()
	switch {
	case errors.Is(err, ErrNotYet):
		l.loadAfter = now.Add(minLoadPause)
	case err != nil:
		l.loadAfter = now.Add(min(minLoadPause<<min(l.loadFailures, 10), maxLoadPause))
		l.loadFailures++
		l.reportLoading(err)
	case more:
		l.loadFailures = 0
	}
	if more {
		l.dispatcher.hungry.offer(l)
	}
}
