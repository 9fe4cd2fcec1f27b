package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/internal/seldom"
	"github.com/informd/informd/plugins/handler"
)

// ErrConflict says that the cluster changed since the answer was made. Drop the answer, and ask the
// handler again with the current object.
var ErrConflict = errors.New("the cluster has changed since")

// ErrStopped is wrapped by the error of a Request that was not made, because its Sequence was told
// to stop while it waited.
var ErrStopped = errors.New("stopped")

// By says on whose behalf the Executor acts.
type By struct {
	Rule    string
	Former  string // the name that the rule had, or empty: what it made then is the rule's too
	Handler string // empty for a rule's own actions
	// Confidential means that an error may quote a Secret, and is not logged.
	Confidential bool
}

// Options are what an Executor can do without.
type Options struct {
	// Logger receives the audit: one line per action, but few of the actions that fail for now.
	Logger *slog.Logger
	// Observer is called after each action, concurrently. It must not block.
	Observer func(Done)
	// Writes records every change. nil: the Executor makes its own.
	Writes *Writes
}

// Result says how an action ended.
type Result string

// The results of an action.
const (
	Changed   Result = "done"      // the object was changed or deleted, or an Event recorded
	Unchanged Result = "unchanged" // the object already was as the action asks
	Created   Result = "created"   // by an apply or create
	Gone      Result = "gone"      // there is nothing left to change
	Conflict  Result = "conflict"  // somebody else changed it meanwhile
	Denied    Result = "denied"    // the handler's Policy does not allow it
	Rejected  Result = "rejected"  // it can never be carried out
	Failed    Result = "failed"    // another try may succeed
)

// Results returns all results of an action.
func Results() []Result {
	return []Result{Changed, Unchanged, Created, Gone, Conflict, Denied, Rejected, Failed}
}

// Done is an action that ended, whatever its result. It has many fields because it is what reports and
// metrics know of an action.
type Done struct {
	By
	Verb            string
	Resource        schema.GroupVersionResource
	Subresource     string
	Namespace, Name string
	// Label is the action of the rule's manifest that asked for it, as actions[0]; "" for a prune and
	// for actions of handlers.
	Label           string
	Result          Result
	Code            int    // of the API server's last answer; 0 if there was none
	ResourceVersion string // the version that the action made
	Delivery        string // the event's id
	Attempt         int    // of the event
	Duration        time.Duration
}

// Executor performs actions. It is safe for concurrent use.
type Executor struct {
	client    *client
	kinds     *kinds
	now       func() time.Time
	writes    *Writes
	limits    limits
	conflicts conflicts
	log       *slog.Logger
	repeated  repeated
	undone    seldom.Messages // rules whose writes somebody else undoes
	pruning   pruning
	observer  func(Done)
}

// New makes an Executor. over is an HTTP client with config's credentials, as rest.HTTPClientFor
// makes it. now is the clock. The Executor asks the cluster nothing before Do.
func New(config *rest.Config, over *http.Client,
	disco discovery.ServerResourcesInterfaceWithContext, now func() time.Time, o Options,
) (*Executor, error) {
	client, err := newClient(config, over)
	if err != nil {
		return nil, err
	}
	if o.Writes == nil {
		o.Writes = NewWrites()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Executor{
		client: client, kinds: newKinds(disco, now), now: now,
		writes: o.Writes, log: o.Logger, observer: o.Observer, limits: limits{gate: newGate(now)},
	}, nil
}

// Check is p.Check, and writes a line to the audit for an action that is refused.
func (x *Executor) Check(p Policy, by By, ev *handler.Event, actions []handler.Action) error {
	at, denied, err := p.check(actions)
	if err != nil {
		o := outcome{result: Rejected}
		if denied {
			o.result = Denied
		}
		x.audit(by, ev, actions[at], o, 0, err)
	}
	return err
}

// Do performs the actions of a handler's answer to ev in order, up to the first that fails, because
// later ones may build on it. The caller has checked them. An error wrapping handler.ErrReject is
// final. With one wrapping ErrConflict, drop the answer. Any other error is worth another try with
// the same actions, after handler.RetryDelay if the error has one. For a rule's own actions, see
// [Executor.Begin].
func (x *Executor) Do(
	ctx context.Context, by By, ev *handler.Event, actions []handler.Action,
) error {
	cause, _ := x.writes.causeOf(ctx, ev)
	var latest string
	for i, a := range actions {
		_, err := x.run(ctx, task{
			Executor: x, by: by, event: ev, cause: cause, action: a, latest: &latest,
			number: i + 1, label: labelOf(i),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run performs one action.
func (x *Executor) run(ctx context.Context, t task) (outcome, error) {
	began := x.now()
	o, err := t.do(ctx)
	if errors.Is(err, ErrStopped) {
		return o, err
	}
	o.result = o.resultOf(err)
	if t.by.Handler == "" {
		o.label = t.label
	}
	x.audit(t.by, t.event, t.action, o, x.now().Sub(began), err)
	if err == nil {
		return o, nil
	}
	return o, fmt.Errorf("%s: %w", Name(t.label, t.action), err)
}

// labelOf returns how errors name an action of a handler's answer.
func labelOf(i int) string { return fmt.Sprintf("actions[%d]", i) }

// outcome is the result of an action in detail.
type outcome struct {
	result  Result
	code    int    // of the last answer
	version string // the version that the action made
	label   string // see Done.Label
	why     Why    // it failed or had no effect, if failed knows
	// dropped are the fields of an apply that the API server ignored.
	dropped []string
}

// resultOf returns the outcome's result, given the action's error.
func (o outcome) resultOf(err error) Result {
	switch {
	case err == nil:
		return o.result
	case errors.Is(err, ErrConflict):
		return Conflict
	case errors.Is(err, handler.ErrReject):
		return Rejected
	}
	return Failed
}

// audit logs and reports how an action ended, without any of its content. Of actions that failed
// for now, it logs what repeated allows.
func (x *Executor) audit(
	by By, ev *handler.Event, a handler.Action, o outcome, took time.Duration, err error,
) {
	done := Done{
		By: by, Verb: a.Verb,
		Resource: resourceOf(a.Resource), Subresource: a.Subresource,
		Namespace: a.Namespace, Name: a.Name,
		Label: o.label, Result: o.result, Code: o.code, ResourceVersion: o.version,
		Delivery: ev.ID, Attempt: ev.Attempt, Duration: took,
	}
	if x.observer != nil {
		x.observer(done)
	}
	level, about := slog.LevelInfo, ""
	if o.result == Denied || o.result == Rejected || o.result == Failed {
		level = slog.LevelWarn
		about = err.Error()
		if by.Confidential && (by.Handler != "" || Quotes(err)) {
			about = cmp.Or(http.StatusText(o.code), "not shown: it may quote a Secret")
		}
	}
	if len(o.dropped) > 0 && err == nil {
		level = slog.LevelWarn
		about = aboutDropped(a, o.dropped)
		if by.Confidential && by.Handler != "" {
			about = "the API server ignored a part of it"
		}
	}
	attrs := []any{
		"rule", by.Rule, "handler", cmp.Or(by.Handler, "(actions)"),
		"verb", printable.Line(a.Verb, 64),
		"resource", printable.Line(resourceName(done.Resource, a.Subresource), 512),
		"namespace", printable.Line(a.Namespace, maxName), "name", printable.Line(a.Name, maxName),
		"result", string(o.result), "code", o.code, "resourceVersion", o.version,
		"id", ev.ID, "attempt", ev.Attempt, "duration", took.Round(time.Microsecond),
	}
	if about != "" {
		attrs = append(attrs, "error", printable.Line(about, maxText))
	}
	if o.result == Failed {
		held, ok := x.repeated.allow(by, x.now(), what(a)+about)
		if !ok {
			return
		}
		attrs = append(attrs, "unreported", held)
	}
	x.log.Log(context.Background(), level, "action", attrs...)
}
