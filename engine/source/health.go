package source

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/internal/seldom"
)

// State is the condition of an informer.
type State uint8

// These are the states. An informer that was Synced and becomes Forbidden, Failing or NotServed
// keeps its objects, and HasSynced stays true. If its resource turns out to be gone in all
// versions, it has none any more, and HasSynced is false.
const (
	Pending   State = iota // the informer does not run yet
	Listing                // the consumer has not taken the first list
	Synced                 // the informer follows the server
	NotServed              // the cluster does not serve the resource; the informer waits for it
	Forbidden              // RBAC denies list or watch; the informer keeps trying
	Failing                // another error is in the way; the informer keeps trying
	Unusable               // the cluster serves the resource, but not as the selection needs it
)

var stateNames = [...]string{"pending", "listing", "synced", "not served", "forbidden", "failing", "unusable"}

// States returns all states.
func States() []State {
	return []State{Pending, Listing, Synced, NotServed, Forbidden, Failing, Unusable}
}

// String returns the state's name, as logs and pages show it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// health holds an informer's state. It logs each change of state once, and trouble of one kind once
// a minute, because trouble may come and go.
type health struct {
	log   *slog.Logger
	clock clock.PassiveClock
	sayer *sayer
	name  string

	mu      sync.Mutex // guards the fields below; comes before the sayer's lock
	state   State
	reason  string
	since   time.Time
	synced  bool           // the consumer has taken what the server had when the informer began
	hasRead bool           // it was synced once
	told    bool           // the current trouble was logged
	said    string         // the kind of its reason that was logged last; or empty
	ended   time.Time      // when the last trouble of a synced informer ended
	doubts  [doubts]string // why the informer is failing although the server answers; or empty
	changed chan struct{}  // closed and replaced at each change
}

// doubt is a reason for which an informer is failing although the server answers. Only what disproves
// it ends it.
type doubt uint8

const (
	silentWatch doubt = iota // nothing comes on its watch
	brokenWatch              // each of its watches breaks
	doubts                   // how many there are
)

func newHealth(log *slog.Logger, sayer *sayer, name string) *health {
	return &health{
		log: log, clock: sayer.clock, sayer: sayer, name: name,
		since: sayer.clock.Now(), changed: make(chan struct{}),
	}
}

// read returns the state, its reason and its start. It also returns whether the informer has
// synced, and a channel that is closed at the next change.
func (h *health) read() (
	state State, reason string, since time.Time, synced bool, changed <-chan struct{},
) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.reason, h.since, h.synced, h.changed
}

// progress returns what IsSettled and HasRead report, and a channel that is closed at the next
// change.
func (h *health) progress() (settled, hasRead bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return isSettled(h.state, h.synced), h.hasRead, h.changed
}

// set sets the state. It returns true if the state is another one. It is called with h.mu held.
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

// listing notes that the informer lists.
func (h *health) listing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list()
}

// list does the work of listing. It is called with h.mu held.
func (h *health) list() {
	if h.state == NotServed {
		h.log.Info("the cluster serves the resource now")
	}
	h.set(Listing, "")
}

// listed notes that the informer has synced, and how many objects it has.
func (h *health) listed(objects int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced, h.hasRead = true, true
	if h.state != Listing { // there is new trouble; the state becomes Synced when that ends
		return
	}
	took := h.clock.Since(h.since).Round(time.Millisecond)
	h.set(Synced, "")
	h.log.Info("source has synced", "objects", objects, "took", took)
}

// notServed notes that the cluster does not serve the resource, and why. objects is how many the
// informer keeps. With any, it stays synced.
func (h *health) notServed(reason string, objects int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced, h.told = h.synced && objects > 0, false
	h.doubts = [doubts]string{}
	if !h.set(NotServed, reason) {
		return
	}
	attrs := []any{"reason", reason}
	if objects > 0 {
		attrs = append(attrs, "keeps", objects)
	}
	h.log.Warn("the cluster does not serve the resource: waiting for it", attrs...)
}

// keeps notes why the objects of a resource that is not served do not count as deleted.
func (h *health) keeps(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != NotServed || h.reason == reason {
		return
	}
	h.set(NotServed, reason)
	if h.sayer.may(h.name + " keeps its objects") {
		h.log.Warn("the resource may not be gone: waiting for it, and keeping its objects",
			"reason", reason)
	}
}

// gone notes that no version of the resource is served, so that the objects count as deleted.
func (h *health) gone(objects int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced = false
	h.set(NotServed, h.reason)
	if objects > 0 {
		h.log.Warn("the cluster serves no version of the resource any more: its objects count as deleted",
			"objects", objects)
	}
}

// trouble sets Forbidden, Failing or Unusable. It logs each kind of reason once, and once a minute if trouble
// comes and goes. Trouble that outlasts that minute is logged when it ends. It logs only what this
// informer alone has; otherwise reach logs it.
func (h *health) trouble(state State, reason string, alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set(state, reason) {
		h.said = ""
	}
	kind := seldom.Kind(reason)
	if alone && h.said != kind && h.sayer.may(h.name+" is "+state.String()+": "+kind) {
		h.told, h.said = true, kind
		message := "source is " + state.String() + ", trying again"
		if state == Unusable {
			message = "source is unusable: the cluster serves its resource, but not like this"
		}
		h.log.Warn(message, "reason", reason)
	}
}

// doubt sets Failing until dispel is called for the same doubt, and well after that.
func (h *health) doubt(d doubt, reason string) {
	h.mu.Lock()
	h.doubts[d] = reason
	h.mu.Unlock()
	h.trouble(Failing, reason, true)
}

// dispel ends a doubt.
func (h *health) dispel(d doubt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubts[d] = ""
}

// well ends trouble, unless there is a doubt. It also ends the wait for a resource that the informer tried although
// discovery did not confirm it.
func (h *health) well() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.state {
	case NotServed:
		h.list()
		return
	case Forbidden, Failing, Unusable:
	default:
		return
	}
	if doubt := cmp.Or(h.doubts[:]...); doubt != "" {
		h.set(Failing, doubt)
		return
	}
	if h.told {
		h.log.Info("source works again",
			"was", h.state.String(), "for", h.clock.Since(h.since).Round(time.Millisecond))
	}
	h.told, h.said = false, ""
	if h.synced {
		h.set(Synced, "")
		h.ended = h.clock.Now()
	} else {
		h.set(Listing, "")
	}
}

// isTroubled reports whether something keeps the informer from following the server.
func (h *health) isTroubled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == Failing || h.state == Forbidden || h.state == Unusable
}

// fresh reports whether the informer follows the server, and has done so for a second if it had
// trouble before. Within that second what it has missed arrives.
func (h *health) fresh(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.synced && h.state == Synced && now.Sub(h.ended) >= time.Second
}
