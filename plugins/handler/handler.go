// Package handler is the contract between informd and the people who ship handlers: programs that
// receive the changes that rules select in a Kubernetes cluster, and answer them.
//
// A handler implements [Handler]; plugins/serve turns it into an executable that informd runs. To
// say or do more, it implements an optional interface: [Describer], [Configurer], [HealthChecker],
// [Drainer], [Batcher], or [CacheUser] to read informd's cache. [DecodeConfig] decodes its config.
// The package imports only the standard library, and nearest beside it. It knows nothing of
// Kubernetes clients, transports or processes. It stays compatible: it grows by optional
// interfaces, never by a method of one.
//
// What informd guarantees to a handler:
//
//   - Delivery is at least once. A repeat carries the same Event.ID and a higher Event.Attempt,
//     also after a restart of the handler.
//   - Events of one rule for one object come in order and never overlap. If the rule has a group,
//     this holds for the events of one group. Other events come in parallel: as many at once as
//     the operator configured, and in addition some that take much longer than the others. A
//     handler that cannot bear that says so with Description.Concurrency.
//   - informd cancels and retries an event that the handler does not answer within its time limit.
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
	// Handle answers one event. A nil error acknowledges it. An error wrapping [ErrReject] makes it
	// a dead letter. After any other error informd sends the event again: after the time that
	// [RetryAfter] asks for, or with growing delays. Calls for one object of one rule never
	// overlap; other calls do. Delivery is at least once: Handle must tolerate a repeat, which
	// carries the same Event.ID. The context ends at the event's time limit, and when informd no
	// longer wants the answer; Handle must then return soon.
	Handle(ctx context.Context, ev Event) (Answer, error)
}

// Func is a function that is a Handler.
type Func func(ctx context.Context, ev Event) (Answer, error)

// Handle calls f.
func (f Func) Handle(ctx context.Context, ev Event) (Answer, error) { return f(ctx, ev) }

// The kinds of change that Event.Event names.
const (
	Added   = "added"   // the object was created, or began to satisfy the rule's where
	Updated = "updated" // the object changed
	Deleted = "deleted" // the object is gone, or stopped satisfying the rule's where
	Synced  = "synced"  // the object was there when the rule began, or it was time for a resync
)

// Event is one change of one object that one rule selected, or all changes of one group if the rule
// has a group: see Items. The exec builtin's commands read its JSON form on standard input, and the
// log builtin writes it. It has many fields because it mirrors the protocol's message.
type Event struct {
	// ID is the same on every attempt, also after a restart. A handler that must not act twice
	// remembers it.
	ID string `json:"id"`
	// Rule is the name of the rule that selected the change.
	Rule string `json:"rule"`
	// Event is the kind of change: one of the constants Added, Updated, Deleted and Synced.
	Event string `json:"event"`
	// Attempt is the number of this attempt, from 1.
	Attempt int `json:"attempt"`
	// Resource is the type of the object.
	Resource Resource `json:"resource"`
	// Namespace is empty for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// ResourceVersion is that of Object. Compare it for equality only.
	ResourceVersion string `json:"resourceVersion"`
	// Epoch says who leads, as the informd sees it that sends the event. It is zero if that informd
	// never had replicas. plugins/serve refuses events of an older epoch than it has seen. A handler
	// that writes elsewhere can pass the epoch on, so that whoever stores it refuses older ones.
	Epoch Epoch `json:"epoch,omitzero"`
	// Traceparent is the event's place in a trace, as the header traceparent of W3C Trace Context.
	// It is empty if the event has none. A repeat may have another one.
	Traceparent string `json:"traceparent,omitempty"`
	// Object is the object's new state, or its last known state if it was deleted. It is JSON as
	// the API server sends it, without metadata.managedFields. Absent if the rule has a payload.
	Object json.RawMessage `json:"object,omitempty"`
	// Old is the object's previous state. Only an Updated event has it, and only if the rule has no
	// payload.
	Old json.RawMessage `json:"old,omitempty"`
	// Payload is the result of the rule's payload expressions; absent if the rule has none.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Attached are other objects, by the names in the rule's attach. informd reads them from its
	// cache just before each attempt, so they are never older than the event. A name for which it
	// finds nothing has an empty list. nil if the rule attaches nothing.
	Attached map[string][]json.RawMessage `json:"attached,omitempty"`
	// Items are all changes that this event stands for, oldest first; nil unless the rule has a
	// group. The last item is the event itself, so a handler that ignores Items sees the newest
	// change of the group. Each item has its own ID, Event, Namespace, Name, UID and
	// ResourceVersion, and its own Payload, or Object and Old. Its Rule, Resource and Attempt are
	// those of the event, its Epoch zero, its Attached and Items nil. One answer is the answer for all of them.
	// At most 1,000 items, and 4 MiB in total unless a single item is larger.
	Items []Event `json:"items,omitempty"`
}

// Resource names a type of object as the API server does: {"apps", "v1", "deployments"}. Group is
// empty for the core group.
type Resource struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
}

// Answer acknowledges an event. The zero Answer asks for nothing more.
type Answer struct {
	// Actions are changes that the handler asks informd to make in the cluster, at most 64. The
	// event is done when all of them are. If the operator does not allow one of them, the event
	// becomes a dead letter.
	Actions []Action
}

// The verbs of an Action.
const (
	ActionApply  = "apply"  // server-side apply of Object, under the field manager informd/RULE
	ActionPatch  = "patch"  // Patch, of the type PatchType, applied to the named object
	ActionCreate = "create" // Object created
	ActionDelete = "delete" // the named object deleted
	ActionEvent  = "event"  // a Kubernetes Event about the named object: Reason, Message, Warning
)

// Action is one change of the cluster that a handler asks informd to make. It has many fields
// because it mirrors the protocol's message: each verb uses some of them.
type Action struct {
	Verb      string   `json:"verb"` // one of the Action constants
	Resource  Resource `json:"resource"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"` // required, also to create: it makes a repeat harmless
	// UID, if set, limits the action to this very object, not a later one of the same name.
	UID string `json:"uid,omitempty"`
	// ResourceVersion, if set, limits the action to this version of the object. If the object has
	// changed since, informd delivers the event again. If the action is on the event's own object
	// and leaves both empty, informd fills in the event's, unless the event is Deleted: so it
	// changes the object that the answer was computed from.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Subresource, for apply and patch, is empty for the object itself, or "status".
	Subresource string `json:"subresource,omitempty"`
	// Object is for apply and create. It may leave out apiVersion, kind, name and namespace.
	Object json.RawMessage `json:"object,omitempty"`
	// PatchType, for patch, is MergePatch (the default) or JSONPatch.
	PatchType string          `json:"patchType,omitempty"`
	Patch     json.RawMessage `json:"patch,omitempty"`
	// Reason, Message and Warning are for event. Reason is one word in CamelCase, of at most 128
	// bytes; Message has at most 1024 bytes; Warning makes the type Warning instead of Normal.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Warning bool   `json:"warning,omitempty"`
}

// ErrReject, wrapped in an error, says that an event can never be handled. informd keeps it as a
// dead letter and goes on with the object's later changes. See [Reject].
var ErrReject = errors.New("rejected")

// Reject returns an error that wraps ErrReject and err. The operator sees err's text. err may be
// nil.
func Reject(err error) error {
	if err == nil {
		return ErrReject
	}
	return fmt.Errorf("%w: %w", ErrReject, err)
}

// RetryAfter returns an error that asks informd to send the event again no sooner than d from now,
// at most 24 hours, instead of after its own backoff. A d of zero or less leaves the time to
// informd. The operator sees err's text. err may be nil.
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

// RetryDelay returns the delay that an error of [RetryAfter], or one that wraps it, asks for.
func RetryDelay(err error) (d time.Duration, ok bool) {
	if e := (*retryAfter)(nil); errors.As(err, &e) && e.d > 0 {
		return e.d, true
	}
	return 0, false
}

// ErrLost says that a handler's process ended, or its stream broke, before it answered an event.
// Only informd's side of the contract returns it, and sends the event again with the same ID and a
// higher Attempt.
var ErrLost = errors.New("handler lost before it answered")

// ErrNoAnswer says that a handler did not answer an event within its time limit. Only informd's
// side of the contract returns it. It counts as a retry, but does not show whether the handler
// survives the event.
var ErrNoAnswer = errors.New("no answer within the time limit")
