// Package handler is the contract between informd and the people who ship handlers: programs that receive the changes
// that rules select in a Kubernetes cluster, and answer them.
//
// A handler implements [Handler]; plugins/serve turns it into an executable that informd runs. What more a handler
// wants to say or do it adds by implementing one of the optional interfaces here: [Describer], [Configurer],
// [HealthChecker], [Drainer]; and [CacheUser], to look up what informd has in its cache. The package imports the standard
// library only, knows nothing of Kubernetes clients, transports or processes, and stays compatible: it grows by optional
// interfaces, never by a method.
//
// What informd guarantees to a handler:
//
//   - Delivery is at least once. A repeat carries the same Event.ID and a higher Event.Attempt, also after a restart of
//     the handler.
//   - Events of one rule for one object come in order and never overlap. Events of different objects, and of different
//     rules, come in parallel, up to the concurrency that the operator configured and the handler described.
//   - An event that is not answered within its time limit is cancelled and retried.
package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Handler answers events.
type Handler interface {
	// Handle answers one event. The zero Answer with a nil error is done. An error wrapping [ErrReject] sets the event
	// aside for good as a dead letter; any other error is retried with backoff, after the time that [RetryAfter] asked
	// for if it did. Calls for one object of one rule never overlap; others do. Delivery is at least once: Handle must
	// tolerate a repeat, which carries the same Event.ID. The context ends at the event's time limit, and when informd
	// no longer wants the answer; Handle must then return soon.
	Handle(ctx context.Context, ev Event) (Answer, error)
}

// Func makes a Handler of a function.
type Func func(ctx context.Context, ev Event) (Answer, error)

// Handle calls f.
func (f Func) Handle(ctx context.Context, ev Event) (Answer, error) { return f(ctx, ev) }

// The kinds of change that Event.Event names.
const (
	Added   = "added"   // the object came into being, or came to satisfy the rule's where
	Updated = "updated" // the object changed
	Deleted = "deleted" // the object is gone, or ceased to satisfy the rule's where; Event.Object is its last known state
	Synced  = "synced"  // the object was there when the rule first saw its source, or a resync came round
)

// Event is one change of one object that one rule selected. Its JSON form is what the exec builtin's commands read on
// standard input and what the log builtin writes.
type Event struct {
	// ID is the same on every attempt, also after a restart of the handler: one that must not act twice remembers it.
	ID string `json:"id"`
	// Rule is the name of the rule that selected the change.
	Rule string `json:"rule"`
	// Event is the kind of change: one of the constants Added, Updated, Deleted and Synced.
	Event string `json:"event"`
	// Attempt counts from 1.
	Attempt int `json:"attempt"`
	// Resource is the type of the object.
	Resource Resource `json:"resource"`
	// Namespace is empty for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// ResourceVersion is that of Object. It is opaque: compare it for equality only.
	ResourceVersion string `json:"resourceVersion"`
	// Object is the new state, for Deleted the last known one; absent where the rule has a payload. It is JSON as the
	// API server has it, without metadata.managedFields.
	Object json.RawMessage `json:"object,omitempty"`
	// Old is the previous state; only with Updated, and absent where the rule has a payload.
	Old json.RawMessage `json:"old,omitempty"`
	// Payload is what the rule's payload expressions made of the change; absent where the rule has none.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Attached are other objects that the rule's attach found, by the names that it gives them, as the cache had them just
	// before this attempt: never older than the event. A name of which nothing was found has an empty list. nil where the
	// rule attaches nothing.
	Attached map[string][]json.RawMessage `json:"attached,omitempty"`
}

// Resource names a type of object as the API server does: {"apps", "v1", "deployments"}. Group is empty for the core.
type Resource struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
}

// Answer is what a handler says of an event that it handled. The zero Answer is done.
type Answer struct {
	// Actions are changes that informd is to make in the cluster on the handler's behalf. The delivery is done when
	// they are. At most 64; an event whose actions the operator did not allow is rejected.
	Actions []Action
}

// The verbs of an Action.
const (
	ActionApply  = "apply"  // server-side apply of Object, under the field manager informd/RULE
	ActionPatch  = "patch"  // Patch applied to the named object, as PatchType says
	ActionCreate = "create" // Object created
	ActionDelete = "delete" // the named object deleted
	ActionEvent  = "event"  // a Kubernetes Event about the named object: Reason, Message, Warning
)

// Action is one change of the cluster that a handler asks informd to make.
type Action struct {
	Verb      string   `json:"verb"` // one of the Action constants
	Resource  Resource `json:"resource"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"` // needed, also to create: it makes a repeat harmless
	// UID, where it is set, has the object changed only if it is still this one.
	UID string `json:"uid,omitempty"`
	// ResourceVersion, where it is set, has the object changed only if it is still at this version; if it is not, the
	// event is delivered again. Both left empty for the event's own object, informd fills in the event's, unless that is
	// Deleted: what the answer was computed from is what is changed.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Subresource, for apply and patch, is empty for the object itself, or "status".
	Subresource string `json:"subresource,omitempty"`
	// Object is for apply and create. apiVersion, kind, name and namespace may be left out.
	Object json.RawMessage `json:"object,omitempty"`
	// PatchType, for patch, is application/merge-patch+json (the default) or application/json-patch+json.
	PatchType string          `json:"patchType,omitempty"`
	Patch     json.RawMessage `json:"patch,omitempty"`
	// Reason, for event, is CamelCase, at most 128 bytes; Message at most 1024 bytes; Warning makes it one of type Warning
	// instead of Normal.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Warning bool   `json:"warning,omitempty"`
}

// ErrReject, wrapped in an error, says that an event can never be handled: informd keeps it as a dead letter and goes
// on with the object's later changes. See [Reject].
var ErrReject = errors.New("rejected")

// Reject makes an error that wraps ErrReject and err. err's text is shown to the operator; nil is allowed.
func Reject(err error) error {
	if err == nil {
		return ErrReject
	}
	return fmt.Errorf("%w: %w", ErrReject, err)
}

// RetryAfter makes an error that asks for a retry no sooner than d from now, instead of after informd's own backoff.
// A d of zero or less leaves it to informd. informd honours at most 24 hours. err's text is shown to the operator; nil
// is allowed.
func RetryAfter(d time.Duration, err error) error { return &retryAfter{d: d, err: err} }

type retryAfter struct {
	d   time.Duration
	err error
}

func (e *retryAfter) Error() string {
	if e.err == nil {
		return fmt.Sprintf("retry after %v", e.d)
	}
	return e.err.Error()
}

func (e *retryAfter) Unwrap() error { return e.err }

// RetryDelay tells the delay that an error made by [RetryAfter], or wrapping one, asks for.
func RetryDelay(err error) (d time.Duration, ok bool) {
	if e := (*retryAfter)(nil); errors.As(err, &e) && e.d > 0 {
		return e.d, true
	}
	return 0, false
}

// ErrLost says that a handler's process ended, or its stream broke, while an event was with it. Only informd's side of
// the contract returns it: the event is sent again with the same ID and a higher Attempt.
var ErrLost = errors.New("handler lost before it answered")

// ErrNoAnswer says that a handler did not answer an event within its time limit. Only informd's side of the contract
// returns it: it counts as a retry, but shows nothing of whether the handler survives the event.
var ErrNoAnswer = errors.New("no answer within the time limit")
