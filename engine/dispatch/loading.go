package dispatch

import (
	"errors"
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

// ended notes the result of an attempt to load. more says that the lane has more to load.
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
