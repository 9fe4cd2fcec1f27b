package admin

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/targets"
)

// Status is the state of the engine as operators see it. It is cheap to read.
type Status struct {
	Sources     []SourceStatus
	Rules       []RuleStatus
	Handlers    []HandlerStatus
	Metrics     []MetricStatus
	DeadLetters dispatch.LetterBoxStats
	// Asides are the changes that are not evaluated, because informd died of them.
	Asides []AsideStatus
	State  *state.Status // nil if nothing is kept
	// IsLoading says that the saved state has not been read, because the API server has not
	// identified the cluster. What it holds, such as letters and deliveries that wait, is not
	// counted yet.
	IsLoading bool
	// IsStopping says that Run's context has ended: no delivery begins, and those in flight end.
	IsStopping bool
}

// AsideStatus is a change that is not evaluated, because informd died of it.
type AsideStatus struct {
	intake.Aside
	Rules []string // that miss the change
}

// SourceStatus is the state of a source, over all of its informers. Its many fields are the columns
// of informd status.
type SourceStatus struct {
	Name     string
	Resource string // VERSION/RESOURCE or GROUP/VERSION/RESOURCE
	// State is the state of the informer that is farthest from synced. Reason says why.
	State  source.State
	Reason string
	Since  time.Time // when the state began: a source that has synced follows the server since then
	// Ready reports whether each informer has caught up with the server, or waits for a resource
	// that is not served and has no objects of it.
	Ready bool
	// ResourceVersion is that of the cache. If a source has several informers, it is the oldest of
	// theirs. It is empty if one of them has listed nothing.
	ResourceVersion string
	// LastHeard is when an informer last received anything from the API server, for the informer
	// for which that is longest ago. It is zero if one has received nothing, or the resource is not
	// served.
	LastHeard  time.Time
	Objects    int                   // in the cache
	Deltas     map[delta.Type]uint64 // handed to rules
	Pending    int                   // taken from the server but not yet handed to rules
	Unreadable uint64                // objects that could not be read, and were left out
	// failures of index expressions; an object counts each time that it is indexed
	IndexErrors uint64
}

// RuleStatus is the state of a rule. Its many fields are what operators see of one.
type RuleStatus struct {
	Name    string
	Former  string // the name that it had before it was renamed, or empty
	Source  string // empty if the rule has none
	Handler string
	Paused  bool
	State   RuleState
	// Slowed reports whether informd holds back its events, because rules chase each other or
	// somebody else undoes what it writes.
	Slowed bool
	// Reason says why the rule is blocked or waits. For an active rule it names sources that it
	// looks into and that have nothing for it. Or it says that the rule is slowed, with the rules
	// that it chases through the cluster, how far a long prune is, or what it applied and leaves in
	// place. Otherwise it is empty.
	Reason string
	// Matches is how many changes the rule selected: where, events and when let them through, and
	// the rule did not make them itself. What count, group and actions make of them comes after
	// that.
	Matches uint64
	Errors  uint64 // changes for which one of its expressions failed
	RuleTimes
	// LastError is the last failure that Errors counts, or nil.
	LastError *live.ExpressionFailure
	Own       uint64 // changes that it made itself, which were not delivered to it
	// Acted is for how many events it performed actions of its own, and Idle for how many it had
	// none to perform: each if was false, or its forEach empty.
	Acted, Idle uint64
	// Targets has what came of the targets of its own actions. It is nil if it has no such
	// actions.
	Targets *explain.Targets
	// Failure says why the last delivery failed, while any waits for a retry. Otherwise it is
	// empty. It omits a reason that may quote a secret.
	Failure string
	Queue   queue.Stats
}

// RuleTimes is what a rule does in time, and what waits for that.
type RuleTimes struct {
	// Pending is how many objects wait to become members in time, and NextDue when the first of
	// them does. It is zero if none waits.
	Pending int
	NextDue time.Time
	// Gathered is how many changes wait for the event of their group, and NextEvent when the first
	// event comes. It is zero if none waits.
	Gathered  int
	NextEvent time.Time
	// Windows is how many windows of its count are open, with changes that count.
	Windows int
	// NextRound is when the rule sees all members again: by its schedule or its resync. It is zero
	// if it never does.
	NextRound time.Time
	// IsScheduled says that NextRound is a moment of the rule's schedule.
	IsScheduled bool
}

// RuleState is the condition of a rule.
type RuleState string

// These are the states. An operator's pause goes before the others.
const (
	RuleActive  RuleState = "active"
	RulePaused  RuleState = "paused"
	RuleWaiting RuleState = "waiting" // for its own source or for one that it looks into
	RuleBlocked RuleState = "blocked" // its source is not served, forbidden or failing
)

// HandlerStatus is the state of the deliveries to a handler.
type HandlerStatus struct {
	Name     string
	InFlight int
}

// Status returns the current state.
func (d *Desk) Status() Status {
	status := Status{
		DeadLetters: d.dead.Stats(),
		IsLoading:   !d.phase.Loaded.Load(), IsStopping: d.phase.Stopping.Load(),
	}
	if d.store != nil {
		s := d.store.Status()
		status.State = &s
	}
	now := d.present.Work()
	sources := make(map[*live.Source]SourceStatus, len(now.Sources))
	for _, s := range now.Sources {
		one := statusOf(s)
		sources[s] = one
		if !s.IsRule() {
			status.Sources = append(status.Sources, one)
		}
	}
	for _, r := range now.Rules {
		state, reason := stateOf(r, sources[r.OwnSource])
		pending, next := r.Timed.Stats()
		gathered, due := r.Lane.Gathered()
		acted, idle := r.Lane.Acted()
		chasing, of := d.chasing(r.Name), shown{d, now, r, true}.whole()
		status.Rules = append(status.Rules, RuleStatus{
			Name: r.Name, Former: r.Former, Source: r.Source.Name, Handler: r.HandlerName(),
			Paused: r.Lane.Paused(), State: state, Slowed: chasing != "",
			Reason:  cmp.Or(reason, chasing, d.acting.Progress(r.Name), prunes(of), r.Pruning.Reason()),
			Matches: r.Matches.Load() + r.Preparer.Selected.Load(), Errors: r.Failures.Count(),
			Own: r.Lane.OwnChanges(), Acted: acted, Idle: idle, Targets: of,
			Queue: r.Lane.Stats(), Failure: failureOfRule(r),
			LastError: r.Failures.Last(r.OwnSource.View, r.Trails.Changes),
			RuleTimes: RuleTimes{
				Pending: pending, NextDue: next, Gathered: gathered, NextEvent: due,
				Windows: r.Tally.Open(d.clock.Now()), NextRound: r.NextRound(), IsScheduled: r.IsScheduled,
			},
		})
	}
	status.Asides = d.asidesOf(now)
	for _, m := range now.Metrics {
		status.Metrics = append(status.Metrics, statusOfMetric(m, now))
	}
	for _, d := range now.Dispatchers {
		s := HandlerStatus{Name: d.Name, InFlight: d.InFlight()}
		status.Handlers = append(status.Handlers, s)
	}
	return status
}

// longPrune is of how many objects a prune takes more than a moment.
const longPrune = 100

// prunes says how many objects a rule still has to delete, if they are many. Otherwise it returns
// "".
func prunes(of *explain.Targets) string {
	if of == nil || of.States[targets.Dropped.String()] <= longPrune {
		return ""
	}
	return fmt.Sprintf("prunes: %d objects are left to delete", of.States[targets.Dropped.String()])
}

// stateOf returns the state of a rule, whose own source has the given status, and the reason.
func stateOf(r *live.Rule, own SourceStatus) (state RuleState, reason string) {
	waits, reason := r.Reason()
	switch own.State {
	case source.NotServed, source.Forbidden, source.Unusable, source.Failing:
		state = RuleBlocked
	case source.Pending, source.Listing:
		state = RuleWaiting
	default:
		state = RuleActive
		if waits {
			state = RuleWaiting
		}
	}
	switch {
	case own.State == source.Synced || waits:
	case r.Source.IsRule():
		reason = "its schedule has not begun: informd waits for the API server"
	default:
		reason = fmt.Sprintf("its source %s is %s", own.Name, own.State)
	}
	if r.Lane.Paused() {
		state = RulePaused
	}
	return state, reason
}

// failureOfRule describes the last failure while something waits for a retry.
func failureOfRule(r *live.Rule) string {
	if r.Lane.Stats().Delayed == 0 {
		return ""
	}
	f, ok := r.Lane.LastFailure()
	switch {
	case !ok:
		return failureBefore(r)
	case f.Confidential:
		f.Reason = "not shown, as it may quote a secret"
	}
	at := f.At.UTC().Format(time.TimeOnly)
	return fmt.Sprintf("%s failed at %s, attempt %d: %s", f.Key, at, f.Attempt, f.Reason)
}

// failureBefore describes a failure before informd started. Its reason is not kept.
func failureBefore(r *live.Rule) string {
	for _, key := range r.Lane.Delayed() {
		if now := r.Lane.Look(key); now.HasFirst && now.First.Failures > 0 {
			return fmt.Sprintf("%s failed before informd started, attempt %d", key, now.First.Attempts)
		}
	}
	return ""
}

// remoteness orders the states by how far they are from synced.
var remoteness = map[source.State]int{
	source.Synced: 0, source.NotServed: 1, source.Listing: 2,
	source.Pending: 3, source.Forbidden: 4, source.Unusable: 5, source.Failing: 6,
}

// statusOf returns the status of a source.
func statusOf(s *live.Source) SourceStatus {
	status := SourceStatus{
		Name: s.Name, State: source.Synced, Ready: true, Deltas: make(map[delta.Type]uint64),
	}
	status.Resource = object.ResourceName(s.Resource)
	for _, f := range s.Failures {
		status.IndexErrors += f.Count()
	}
	isFirst := true
	for i, informer := range s.View.Informers() {
		stats := informer.Stats()
		if stats.State != source.NotServed && (isFirst || stats.LastHeard.Before(status.LastHeard)) {
			status.LastHeard, isFirst = stats.LastHeard, false
		}
		if i == 0 || isBehind(stats.ResourceVersion, status.ResourceVersion) {
			status.ResourceVersion = stats.ResourceVersion
		}
		switch far, of := remoteness[stats.State], remoteness[status.State]; {
		case far > of:
			status.State, status.Reason, status.Since = stats.State, stats.Reason, stats.Since
		case far == of && stats.Since.After(status.Since):
			status.Since = stats.Since
		}
		// An informer that keeps objects of a resource that is not served knows nothing new of
		// them.
		works := stats.State == source.Synced ||
			stats.State == source.NotServed && stats.Objects == 0
		status.Ready = status.Ready && works
		status.Objects += stats.Objects
		status.Pending += stats.Pending
		status.Unreadable += stats.Unreadable
		for t, n := range stats.Deltas {
			status.Deltas[t] += n
		}
	}
	return status
}

// isBehind reports whether resourceVersion a is older than b, of the same resource. An empty one is
// older than any.
func isBehind(a, b string) bool {
	if a == "" || b == "" {
		return a == ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
