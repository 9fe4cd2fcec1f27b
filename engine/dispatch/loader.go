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
	mu    sync.Mutex // may be taken with other locks held; takes nothing itself
	lanes []*Lane    // guarded by mu
	// wake tells the loader that there is a lane. It holds one message; more would say the same.
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

// next takes the first lane that may be loaded for now. If there is none, wait is how long it takes until
// there is one; 0 if none is known.
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

// load loads deliveries that are in the lanes' stores alone, as they are needed, until ctx ends. Lanes
// take turns. A slow store delays what else is to be loaded for this handler, and nothing that is in
// memory.
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

// load loads for one object of the lane. After an error the lane is left alone for a while.
// The loader alone calls it.
func (l *Lane) load() {
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
