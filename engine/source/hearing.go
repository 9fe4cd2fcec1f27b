package source

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
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
// An API server sends a bookmark to each watch about once a minute. If it does not, the informer
// asks for watches of a minute, and the server ends them. So a watch is silent for more than a
// minute only if something is wrong:
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
	// taken is a moment; the consumer has taken everything that the server had then. What comes late is
	// no proof of that, because more may be on its way: see confirming.
	taken   atomic.Pointer[time.Time]
	reached atomic.Pointer[string] // the resourceVersion up to which the consumer has taken all
	// isRegular says that the server sends bookmarks at intervals.
	isRegular atomic.Bool
	// isGiven means that the process itself hands over the objects: there is no server.
	isGiven bool
	mutes   atomic.Int32 // requests in a row that had no answer in time
	// doubted has a token if something else says that the watch does not bring what the server has.
	doubted chan struct{} // capacity 1
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

// reach notes that the consumer has taken everything up to a resourceVersion. It is called in order.
func (h *hearing) reach(version string) {
	if version != "" {
		h.reached.Store(&version)
	}
}

// hasReached reports whether the consumer has taken everything up to a resourceVersion.
func (h *hearing) hasReached(version string) bool {
	reached := h.reached.Load()
	if reached == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(*reached, version)
	return err == nil && order >= 0
}

// take notes that the consumer has taken everything that the server had at a time; the zero time says
// nothing.
func (h *hearing) take(at time.Time) {
	for {
		before := h.taken.Load()
		if at.IsZero() || before != nil && !at.After(*before) || h.taken.CompareAndSwap(before, &at) {
			return
		}
	}
}

// isPast reports whether the consumer has taken everything that the server had at a moment.
func (h *hearing) isPast(at time.Time) bool {
	if h.isGiven {
		return true
	}
	taken := h.taken.Load()
	return taken != nil && !taken.Before(at)
}
