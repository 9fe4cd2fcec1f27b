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

// loading says when a lane loads from its store.
type loading struct {
	isHungry bool      // is in Dispatcher.hungry; guarded by Dispatcher.hungry.mu
	after    time.Time // when the lane may load again; only the loader uses it
	failures int       // load errors in a row; only the loader uses it
}

// ended notes how an attempt at loading ended. more says that there is more to load.
func (l *loading) ended(now time.Time, more bool, err error) {
	switch {
	case errors.Is(err, ErrNotYet):
		l.after = now.Add(minLoadPause)
	case err != nil:
		l.after = now.Add(min(minLoadPause<<min(l.failures, 10), maxLoadPause))
		l.failures++
	case more:
		l.failures = 0
	}
}

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
	if l.loading.isHungry {
		return
	}
	l.loading.isHungry = true
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
		pause := l.loading.after.Sub(now)
		if pause <= 0 {
			h.lanes = slices.Delete(h.lanes, i, i+1)
			l.loading.isHungry = false
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
	l.loading.ended(l.dispatcher.opts.Clock.Now(), more, err)
	if err != nil && !errors.Is(err, ErrNotYet) {
		l.reports.reportLoading(err)
	}
	if more {
		l.dispatcher.hungry.offer(l)
	}
}
