package source

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// State is where an informer stands.
type State uint8

// The states. An informer that was Synced and is Forbidden or Failing keeps its objects and still answers HasSynced.
const (
	Pending   State = iota // Run has not come to it
	Listing                // the first list has not been handed to the listeners
	Synced                 // it follows the server
	NotServed              // the cluster does not serve the resource; it waits for that
	Forbidden              // RBAC does not let it list or watch; it keeps trying
	Failing                // something else is in the way; it keeps trying
)

var stateNames = [...]string{"pending", "listing", "synced", "not served", "forbidden", "failing"}

// String is the state for people.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// status is an informer's state, and the one who tells of its changes in the log: each once, and trouble of one kind once
// a minute, for it may come and go.
type status struct {
	log   *slog.Logger
	clock clock.PassiveClock
	sayer *sayer
	name  string

	mu      sync.Mutex
	state   State
	reason  string
	since   time.Time
	synced  bool // the first list of the present generation has been handed to the listeners
	told    bool // of the trouble at hand
	changed chan struct{}
}

func newStatus(log *slog.Logger, sayer *sayer, name string) *status {
	return &status{log: log, clock: sayer.clock, sayer: sayer, name: name, since: sayer.clock.Now(), changed: make(chan struct{})}
}

// read is the state, why, since when, whether the informer has synced, and a channel that is closed at the next change.
func (s *status) read() (state State, reason string, since time.Time, synced bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.reason, s.since, s.synced, s.changed
}

// set, with s.mu, tells whether it is a change worth a line in the log.
func (s *status) set(state State, reason string) bool {
	news := s.state != state
	s.state, s.reason = state, reason
	if news {
		s.since = s.clock.Now()
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return news
}

func (s *status) listing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list()
}

// list, with s.mu.
func (s *status) list() {
	if s.state == NotServed {
		s.log.Info("the cluster serves the resource now")
	}
	s.set(Listing, "")
}

func (s *status) listed(objects int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
	if s.state != Listing { // in trouble again: it becomes Synced when that is over
		return
	}
	took := s.clock.Since(s.since).Round(time.Millisecond)
	s.set(Synced, "")
	s.log.Info("source has synced", "objects", objects, "took", took)
}

func (s *status) notServed(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.told = false, false
	if s.set(NotServed, reason) {
		s.log.Warn("the cluster does not serve the resource: waiting for it", "reason", reason)
	}
}

// trouble is Forbidden or Failing. Where it is not this informer's trouble alone, others say so.
func (s *status) trouble(state State, reason string, alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set(state, reason) && alone && s.sayer.may(s.name+" is "+state.String()) {
		s.told = true
		s.log.Warn("source is "+state.String()+", trying again", "reason", reason)
	}
}

// well ends trouble, and the wait for a resource that was tried before it was known to be served.
func (s *status) well() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case NotServed:
		s.list()
		return
	case Forbidden, Failing:
	default:
		return
	}
	if s.told {
		s.log.Info("source works again", "was", s.state.String(), "for", s.clock.Since(s.since).Round(time.Millisecond))
	}
	s.told = false
	if s.synced {
		s.set(Synced, "")
	} else {
		s.set(Listing, "")
	}
}
