package dispatch

import (
	"slices"
	"sync"
	"time"
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
