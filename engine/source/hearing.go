package source

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// hearing is when an informer last heard the server. An informer that hears nothing knows how things
// were then, and cannot tell that from a cluster in which nothing happens. So everything that
// depends on how old its knowledge is asks hearing, and not whether an error came.
//
// The informer hears the server by a frame of a watch, by bytes of a list, and by the end of a watch
// at the very time that the informer asked for. The headers of an answer are no proof: a proxy may
// send them and then nothing.
//
// An API server sends a bookmark to each watch about once a minute. One that does not is asked for
// watches of a minute, and ends them. So a watch is silent for more than a minute only if something
// is wrong:
//
//	after quiet   the informer opens the watch again from where it was, as a probe: a watch of a few
//	              seconds, which has a bookmark or its end soon
//	after proof   the probe has brought nothing either: the source is failing, and says so. Only a
//	              frame or the end of a probe makes it well
//
// Besides, no request waits longer than a limit for the next bytes of its answer: see limits.
type hearing struct {
	clock clock.PassiveClock
	heard atomic.Pointer[time.Time] // nil before the first time
	// taken is as heard, but says when the server sent what the consumer has taken.
	taken atomic.Pointer[time.Time]
	// isRegular says that the server sends bookmarks at intervals.
	isRegular atomic.Bool
	// isGiven says that somebody hands over all that there is to hear: there is no server.
	isGiven bool
	mutes   atomic.Int32 // requests in a row that had no answer in time
}

// hear notes that the server was heard now, and returns the time.
func (h *hearing) hear() time.Time {
	now := h.clock.Now()
	h.heard.Store(&now)
	return now
}

// last returns when the server was last heard, or the zero time.
func (h *hearing) last() time.Time {
	if at := h.heard.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// take notes that the consumer has taken everything that the server had sent at a time; the zero
// time says nothing.
func (h *hearing) take(at time.Time) {
	for {
		before := h.taken.Load()
		if at.IsZero() || before != nil && !at.After(*before) || h.taken.CompareAndSwap(before, &at) {
			return
		}
	}
}

// isPast reports whether the consumer has taken something that the server sent at a time or later.
func (h *hearing) isPast(at time.Time) bool {
	if h.isGiven {
		return true
	}
	taken := h.taken.Load()
	return taken != nil && !taken.Before(at)
}
