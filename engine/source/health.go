package source

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// State says where an informer stands.
type State uint8

// The states. An informer that was Synced and is Forbidden or Failing keeps its objects, and
// HasSynced stays true.
const (
	Pending   State = iota // it does not run yet
	Listing                // the consumer has not been told the first list
	Synced                 // it follows the server
	NotServed              // the cluster does not serve the resource; the informer waits for it
	Forbidden              // RBAC does not let it list or watch; it keeps trying
	Failing                // something else is in the way; it keeps trying
)

var stateNames = [...]string{"pending", "listing", "synced", "not served", "forbidden", "failing"}

// String returns the state's name, as logs and pages show it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// health is an informer's state. It logs each change once, and trouble of one kind once a minute,
// for it may come and go.
type health struct {
	log   *slog.Logger
	clock clock.PassiveClock
	sayer *sayer
	name  string

	mu      sync.Mutex // guards what follows; the sayer's is taken behind it
	state   State
	reason  string
	since   time.Time
	synced  bool          // the consumer has been told what the server had
	told    bool          // the trouble at hand was logged
	changed chan struct{} // closed and replaced with each change
}

func newHealth(log *slog.Logger, sayer *sayer, name string) *health {
	return &health{log: log, clock: sayer.clock, sayer: sayer, name: name, since: sayer.clock.Now(), changed: make(chan struct{})}
}

// read returns the state, why, since when, whether the informer has synced, and a channel that is
// closed at the next change.
func (h *health) read() (state State, reason string, since time.Time, synced bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.reason, h.since, h.synced, h.changed
}

// set sets the state, and reports whether it is another one. It is called with h.mu.
func (h *health) set(state State, reason string) bool {
	news := h.state != state
	h.state, h.reason = state, reason
	if news {
		h.since = h.clock.Now()
	}
	close(h.changed)
	h.changed = make(chan struct{})
	return news
}

// listing says that the informer lists.
func (h *health) listing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list()
}

// list is listing, called with h.mu.
func (h *health) list() {
	if h.state == NotServed {
		h.log.Info("the cluster serves the resource now")
	}
	h.set(Listing, "")
}

// listed says that the informer has synced, with so many objects.
func (h *health) listed(objects int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced = true
	if h.state != Listing { // in trouble again: it becomes Synced when that is over
		return
	}
	took := h.clock.Since(h.since).Round(time.Millisecond)
	h.set(Synced, "")
	h.log.Info("source has synced", "objects", objects, "took", took)
}

// notServed says that the cluster does not serve the resource, and why.
func (h *health) notServed(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced, h.told = false, false
	if h.set(NotServed, reason) {
		h.log.Warn("the cluster does not serve the resource: waiting for it", "reason", reason)
	}
}

// trouble sets Forbidden or Failing. If it is not this informer's trouble alone, reach logs it.
func (h *health) trouble(state State, reason string, alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set(state, reason) && alone && h.sayer.may(h.name+" is "+state.String()) {
		h.told = true
		h.log.Warn("source is "+state.String()+", trying again", "reason", reason)
	}
}

// well ends trouble, and the wait for a resource that was tried although discovery did not confirm
// it.
func (h *health) well() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.state {
	case NotServed:
		h.list()
		return
	case Forbidden, Failing:
	default:
		return
	}
	if h.told {
		h.log.Info("source works again", "was", h.state.String(), "for", h.clock.Since(h.since).Round(time.Millisecond))
	}
	h.told = false
	if h.synced {
		h.set(Synced, "")
	} else {
		h.set(Listing, "")
	}
}
