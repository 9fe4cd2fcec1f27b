package action

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Request is one of a rule's own actions.
type Request struct {
	Action handler.Action
	Label  string // of the action in the manifest, as actions[0]
	Number int    // of the action among those for the change, from 1
	// Prunes says that the rule deletes the object of this apply once it stops applying it. So an
	// object that somebody else has made is not taken over.
	Prunes bool
	// Judge, if not nil, decides in place of Prunes whether the object that is there is the rule's.
	Judge Judge
}

// Judge decides whether an apply or a deletion may change an object that exists. It is called before
// each write. former names another rule whose fields the apply is to take over; "" if there is none.
// An error ends the request. After [ErrLeave] the request ends as if the object were gone.
type Judge func(ctx context.Context, there There) (former string, err error)

// ErrLeave is what a [Judge] returns for an object that is to stay as it is.
var ErrLeave = errors.New("the object stays as it is")

// There is what a [Judge] knows of an object.
type There struct{ meta metadata }

// Label returns the value of a label, or "".
func (t There) Label(name string) string { return t.meta.Labels[name] }

// Marks returns all labels and annotations.
func (t There) Marks() (labels, annotations map[string]string) {
	return t.meta.Labels, t.meta.Annotations
}

// IsAppliedBy reports whether one of these rules has applied any of the object.
func (t There) IsAppliedBy(rules ...string) bool {
	for _, rule := range rules {
		if rule != "" && t.meta.appliedBy(FieldManager(rule)) {
			return true
		}
	}
	return false
}

// IsBeingDeleted reports whether somebody has deleted the object, and something holds it back.
func (t There) IsBeingDeleted() bool { return t.meta.DeletionTimestamp != nil }

// Ended is what came of a Request, besides its error.
type Ended struct {
	Result  Result
	Version string // of the object that the request made, or ""
	// Why says what made it fail, or why nothing could be done although there is no error. Otherwise
	// it is "".
	Why       Why
	Namespace string        // that does not exist or is being deleted, if Why says so
	After     time.Duration // for which the API server asks, before the next try
}

// Sequence performs a rule's own actions for one change, each by itself. It is safe for concurrent
// use: only the caller knows in which order targets want their requests.
type Sequence struct {
	executor *Executor
	by       By
	event    *handler.Event
	cause    Cause
	stop     func() bool // may be nil

	mu     sync.Mutex
	begins time.Time // when it may begin; zero until something is to be done; guarded by mu
	latest string    // the version that it made of the event's own object, or ""; guarded by mu
}

// Begin begins the actions for an event. It makes no request. stop reports that nothing more is to
// be done. Each action asks it once its turn has come, and so does each deletion of a prune. stop is
// safe for concurrent use, and may be nil.
func (x *Executor) Begin(
	ctx context.Context, by By, ev *handler.Event, stop func() bool,
) *Sequence {
	cause, _ := x.writes.causeOf(ctx, ev)
	return &Sequence{executor: x, by: by, event: ev, cause: cause, stop: stop}
}

// One performs an action. An error that wraps handler.ErrReject is final. One that wraps ErrConflict
// says that the event's own object has changed. With one that wraps ErrStopped, nothing was done. If
// InTrouble says so, other requests would fail as well. After any other error, another try may
// succeed.
//
// One waits as long as the rule or all rules have too many actions under way. The first one of a
// Sequence waits as well if the rule acts for too many events: that bounds a rule that chases itself.
func (s *Sequence) One(ctx context.Context, r Request) (Ended, error) {
	t := s.task(r)
	before := s.version()
	*t.latest = before
	o, err := s.executor.run(ctx, t)
	if *t.latest != before { // only one action at a time is about the event's object
		s.mu.Lock()
		s.latest = *t.latest
		s.mu.Unlock()
	}
	return ended(r, o, err), err
}

// BeginPrune says that n deletions begin, for [Executor.Pruning] and the log. did is called after each
// of them, also concurrently, and end at the end.
func (s *Sequence) BeginPrune(n int) (did, end func()) {
	return s.executor.beginPrune(s.by.Rule, n, "id", s.event.ID)
}

// Prune deletes the objects with these labels that the rule applied, in all namespaces, and for
// which keeps returns false. People and controllers copy labels, so an object is deleted only if the
// API server remembers that the rule applied it. Each deletion is an action of its own in the audit.
// Errors are as those of One. If several deletions fail, what is returned is about one of them. If
// the cluster does not serve the resource, that is no error: Ended's Why says so.
func (s *Sequence) Prune(
	ctx context.Context, resource schema.GroupVersionResource, labelSelector string,
	keeps func(resource schema.GroupVersionResource, key delta.Key) bool,
) (Ended, error) {
	return s.prune(ctx, Prune(resource, labelSelector), func(a handler.Action) bool {
		return keeps(resourceOf(a.Resource), keyOf(a))
	})
}

func (s *Sequence) prune(
	ctx context.Context, a handler.Action, keeps func(handler.Action) bool,
) (Ended, error) {
	r := Request{Action: a}
	o, err := s.executor.prune(ctx, s.task(r), keeps)
	return ended(r, o, err), err
}

// await waits until the rule may act for another event.
func (s *Sequence) await(ctx context.Context) error {
	s.mu.Lock()
	if s.begins.IsZero() {
		s.begins = time.Now().Add(s.executor.limits.begun.reserve(s.by))
	}
	left := time.Until(s.begins)
	s.mu.Unlock()
	if left <= 0 {
		return nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isStopped reports whether nothing more is to be done.
func (s *Sequence) isStopped() bool { return s.stop != nil && s.stop() }

func (s *Sequence) task(r Request) task {
	return task{
		Executor: s.executor, by: s.by, event: s.event, cause: s.cause, action: r.Action,
		number: r.Number, label: r.Label, latest: new(string), prunes: r.Prunes, judge: r.Judge,
		sequence: s,
	}
}

func (s *Sequence) version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// ended returns what came of r, which ended with o and err.
func ended(r Request, o outcome, err error) Ended {
	e := Ended{Result: o.result, Version: o.version, Why: o.why}
	if err != nil && e.Why == "" {
		e.Why = whyFailed(err)
	}
	if e.Why == CauseNamespace || e.Why == CauseTerminating {
		e.Namespace = r.Action.Namespace
	}
	e.After, _ = handler.RetryDelay(err)
	return e
}

// IsPrune returns the label selector of an action that [Prune] has made. is is false for others.
func IsPrune(a handler.Action) (labelSelector string, is bool) {
	if a.Verb != prune {
		return "", false
	}
	return labelSelector, json.Unmarshal(a.Object, &labelSelector) == nil
}

// appliedBy returns a function that reports whether one of the actions applies the object of a
// deletion.
func appliedBy(actions []handler.Action) (keeps func(handler.Action) bool) {
	applied := make(map[target]bool)
	for _, a := range actions {
		if a.Verb == handler.ActionApply {
			applied[targetOf(resourceOf(a.Resource), keyOf(a))] = true
		}
	}
	return func(deletion handler.Action) bool {
		return applied[targetOf(resourceOf(deletion.Resource), keyOf(deletion))]
	}
}
