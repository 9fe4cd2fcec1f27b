package dispatch

import (
	"context"
	"errors"
	"time"
)

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
		l.dispatcher.loadSoon(l)
	}
}
