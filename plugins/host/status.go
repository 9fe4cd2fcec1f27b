package host

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/informd/informd/plugins/host/outbox"
	"github.com/informd/informd/plugins/host/session"
)

// Counts are totals over a handler's life.
type Counts = outbox.Counts

// Slow describes the events that a handler is slow with.
type Slow = outbox.Slow

// Description is what a handler says about itself, checked and bounded.
type Description = session.Description

// RefusedError says that a handler works but refuses its config.
type RefusedError = session.RefusedError

// Problem is one thing that a handler finds wrong with its config.
type Problem = session.Problem

// State says where a handler stands.
type State string

// The states of a handler.
const (
	Idle       State = "idle"        // Run was not called yet
	Starting   State = "starting"    // a process is launched, described and configured
	Running    State = "running"     // a process takes events
	Wedged     State = "wedged"      // a process missed a health check; the next miss ends it
	BackingOff State = "backing off" // the process ended or did not start; it is launched again
	// Refused: the handler refuses its config, or cannot be confined as asked. It is tried again
	// now and then.
	Refused State = "refused"
	Stopped State = "stopped" // Run has returned
)

// States returns all states, in the order of a handler's life.
func States() []State {
	return []State{Idle, Starting, Running, Wedged, BackingOff, Refused, Stopped}
}

// Status describes a handler at one moment. It has many fields because it is a flat report.
type Status struct {
	State     State
	Reason    string      // why it is wedged, backing off or refused, for the operator
	Since     time.Time   // when it entered this state
	Next      time.Time   // when it is launched again, if it is backing off or refused
	Problem   string      // what a running handler reports about its health; empty if it is well
	ProblemAt time.Time   // since when it reports Problem; zero if that is not known
	Handler   Description // of the last process that described itself
	Confined  string      // what the last process that ran is confined to; empty for nothing
	PID       int         // of the process; 0 if none is running
	Reloading time.Time   // since when a Reload is under way; zero if none is
	Restarts  int         // launches after the first, including those by Reload
	Failures  int         // that count towards the next pause; see Backoff.Decay
	// LastFailure is that of the last process that failed, also while the next one runs.
	LastFailure Failure
	// LastLog holds the last lines on standard error of the last process that failed, oldest
	// first: at most 10, of at most 200 bytes each.
	LastLog  []string
	Waiting  int // events that wait for room or for a process
	InFlight int // events that are with the process
	Slow     Slow
	Counts   Counts
	Reads    Reads

	Endpoints []Endpoint // of a remote handler, by address
}

// Failure says why and when a process failed. It is zero if none has failed.
type Failure struct {
	Reason string
	At     time.Time
}

// Reads are totals of the calls that read the cache.
type Reads struct {
	Calls   uint64
	Refused uint64 // of them, those that were answered with an error
}

// Endpoint is one of the endpoints behind a remote handler's name.
type Endpoint struct {
	Address string // and port
	Status  Status // of the connection to it, which stands in the place of a process
	// CertificateEnds is when the certificate expires that it showed last. It is zero before that.
	CertificateEnds time.Time
}

// CertificateEnds returns when the first of the endpoints' certificates expires, or zero.
func (s Status) CertificateEnds() (first time.Time) {
	for _, e := range s.Endpoints {
		if at := e.CertificateEnds; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// EndpointsIn returns how many of the endpoints are in a state.
func (s Status) EndpointsIn(state State) (n int) {
	for _, e := range s.Endpoints {
		if e.Status.State == state {
			n++
		}
	}
	return n
}

// better lists the states of an endpoint, the best first.
var better = []State{Running, Wedged, Starting, BackingOff, Refused, Idle, Stopped}

// sumUp derives the status from those of the endpoints. trouble is the error of the last look-up.
func (s *Status) sumUp(trouble error) {
	if len(s.Endpoints) == 0 {
		s.State = BackingOff
		if trouble != nil {
			s.Reason = trouble.Error()
		}
		return
	}
	first := slices.MinFunc(s.Endpoints, func(a, b Endpoint) int {
		return cmp.Or(
			cmp.Compare(slices.Index(better, a.Status.State), slices.Index(better, b.Status.State)),
			a.Status.Since.Compare(b.Status.Since))
	})
	s.State, s.Since = first.Status.State, first.Status.Since
	s.Next, s.Handler = first.Status.Next, first.Status.Handler
	if first.Status.Reason != "" {
		s.Reason = first.Address + ": " + first.Status.Reason
	}
	var problems []string
	for _, e := range s.Endpoints {
		switch {
		case e.Status.Problem != "":
			problems = append(problems, e.Address+": "+e.Status.Problem)
			if len(problems) == 1 {
				s.ProblemAt = e.Status.ProblemAt
			}
		case e.Status.State == Running && e.Status.Handler.Name != s.Handler.Name:
			problems = append(problems, fmt.Sprintf(
				"%s is %q, another is %q: do all addresses of the name belong to one handler?",
				e.Address, e.Status.Handler.Name, s.Handler.Name))
		}
	}
	if trouble != nil {
		problems = append(problems, trouble.Error())
	}
	if len(problems) > 0 {
		s.Problem = problems[0]
		if more := len(problems) - 1; more > 0 {
			s.Problem += fmt.Sprintf(" (and %d more)", more)
		}
	}
}
