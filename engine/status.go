package engine

import (
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/source"
)

// Status is how the engine stands: what operators see of it. Reading it is cheap.
type Status struct {
	Sources     []SourceStatus
	Rules       []RuleStatus
	Handlers    []HandlerStatus
	DeadLetters int
}

// SourceStatus is how a source stands, over all of its informers.
type SourceStatus struct {
	Name string
	// State is the one, of its informers', that is farthest from synced; Reason says why.
	State  source.State
	Reason string
	// Ready tells whether every informer has caught up with the server, or waits for a resource that is not served.
	Ready       bool
	Objects     int                   // in the cache
	Deltas      map[delta.Type]uint64 // handed to rules
	Pending     int                   // taken from the server and not handed to rules yet
	Unreadable  uint64                // objects that could not be read, and were left out
	IndexErrors uint64                // how often an index expression failed; on one object, whenever it is indexed anew
}

// RuleStatus is how a rule stands.
type RuleStatus struct {
	Name    string
	Handler string
	Matches uint64 // changes that it selected
	Errors  uint64 // changes on which one of its expressions failed
	Queue   queue.Stats
}

// HandlerStatus is how the deliveries to a handler stand.
type HandlerStatus struct {
	Name     string
	InFlight int
}

// Status tells how everything stands now.
func (e *Engine) Status() Status {
	status := Status{DeadLetters: e.dead.Len()}
	for _, s := range e.sources {
		status.Sources = append(status.Sources, s.status())
	}
	for _, r := range e.rules {
		status.Rules = append(status.Rules, RuleStatus{
			Name: r.Name, Handler: r.Handler, Matches: r.matches.Load(), Errors: r.failures.count.Load(), Queue: r.lane.Stats(),
		})
	}
	for _, d := range e.dispatchers {
		status.Handlers = append(status.Handlers, HandlerStatus{Name: d.name, InFlight: d.InFlight()})
	}
	return status
}

// remoteness orders the states by how far they are from synced.
var remoteness = map[source.State]int{
	source.Synced: 0, source.NotServed: 1, source.Listing: 2, source.Pending: 3, source.Forbidden: 4, source.Failing: 5,
}

func (s *runningSource) status() SourceStatus {
	status := SourceStatus{Name: s.Name, State: source.Synced, Ready: true, Deltas: make(map[delta.Type]uint64)}
	for _, f := range s.failures {
		status.IndexErrors += f.count.Load()
	}
	for _, informer := range s.view.Informers() {
		stats := informer.Stats()
		if remoteness[stats.State] > remoteness[status.State] {
			status.State, status.Reason = stats.State, stats.Reason
		}
		status.Ready = status.Ready && (stats.State == source.NotServed || stats.State == source.Synced)
		status.Objects += stats.Objects
		status.Pending += stats.Pending
		status.Unreadable += stats.Unreadable
		for t, n := range stats.Deltas {
			status.Deltas[t] += n
		}
	}
	return status
}
