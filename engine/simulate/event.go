package simulate

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Event is what a rule did: it handed an event to its handler, performed its own actions, or gave
// an event up. Each attempt is an Event of its own.
type Event struct {
	At   time.Time
	Rule string
	// Handler is the handler that got the event. It is empty for a rule's own actions.
	Handler string
	// Event is what the handler got. Its Attempt says which attempt it is.
	Event handler.Event
	// Actions are the actions that the handler's answer asked for, or those of the rule itself, in
	// their order. They were allowed, and would have been sent to the API server. To leave out what
	// has no effect is up to the server.
	Actions []handler.Action
	// Pruned is what the rule looks for after its actions, to delete what they no longer apply.
	Pruned []Prune
	// Dead says why the event became a dead letter after this attempt. It is empty if it did not.
	Dead string
}

// Prune is a search for objects that a rule has applied.
type Prune struct {
	Resource      handler.Resource
	LabelSelector string
}

// Answer is how a handler answers an event. The zero Answer acknowledges it.
type Answer struct {
	// Retry is an error: the event comes again after the handler's backoff, until its attempts are
	// used up. If RetryAfter is not zero, it comes again after that time; Retry may be empty then.
	Retry      string
	RetryAfter time.Duration
	// Reject is an error that makes the event a dead letter.
	Reject string
	// Actions are what the handler asks for. They must be allowed by its spec.access.write.
	Actions []handler.Action
}

func (a Answer) answer() (handler.Answer, error) {
	switch {
	case a.Reject != "":
		return handler.Answer{}, handler.Reject(errors.New(a.Reject))
	case a.Retry != "" || a.RetryAfter > 0:
		var err error
		if a.Retry != "" {
			err = errors.New(a.Retry)
		}
		return handler.Answer{}, handler.RetryAfter(a.RetryAfter, err)
	}
	return handler.Answer{Actions: a.Actions}, nil
}

// recipient stands for a handler of the plan. It implements engine.Handler.
type recipient struct {
	*Simulation
	name string
}

// Handle implements handler.Handler.
func (r recipient) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	e := *r.told.add(Event{Rule: ev.Rule, Handler: r.name, Event: ev})
	if r.options.Answer == nil {
		return handler.Answer{}, nil
	}
	return r.options.Answer(e).answer()
}

// Ready implements engine.Handler.
func (recipient) Ready(context.Context) error { return nil }

// Limit implements engine.Handler.
func (recipient) Limit() (n int, isProbe bool) { return 1, false }

// Grown implements engine.Handler.
func (recipient) Grown() <-chan struct{} { return nil }

// told is what rules did since the last call of Events. It implements acting.Virtual.
type told struct {
	clock  *clock
	acted  func(Event, handler.Action) Answer // of Options
	events []Event

	cluster *cluster
	marked  action.Marked // what rules with prune have applied
}

// Exists implements acting.Virtual.
func (t *told) Exists(resource schema.GroupVersionResource, key delta.Key) bool {
	return t.cluster.objects[resource][key] != nil
}

// Marked implements acting.Virtual.
func (t *told) Marked() *action.Marked { return &t.marked }

// Try implements acting.Virtual.
func (t *told) Try(ev *handler.Event, a handler.Action) error {
	if t.acted == nil {
		return nil
	}
	answer := t.acted(Event{At: t.clock.now, Rule: ev.Rule, Event: *ev}, a)
	_, err := answer.answer()
	return err
}

// Perform implements acting.Virtual.
func (t *told) Perform(by string, ev *handler.Event, actions []handler.Action) {
	var all []handler.Action
	var pruned []Prune
	for _, a := range actions {
		if selector, is := action.IsPrune(a); is {
			pruned = append(pruned, Prune{a.Resource, selector})
		} else {
			all = append(all, a)
		}
	}
	e := t.attempt(ev.ID, ev.Attempt, by)
	if e == nil || by == "" {
		e = t.add(Event{Rule: ev.Rule, Handler: by, Event: *ev})
	}
	e.Actions, e.Pruned = all, pruned
}

// died records a dead letter.
func (t *told) died(l delivery.Letter) {
	e := t.attempt(l.ID, l.Attempts, l.Handler, "")
	if e == nil {
		e = t.add(Event{Rule: l.Rule, Handler: l.Handler, Event: l.Event()})
	}
	e.Dead = l.Reason
}

// add adds an event that came now.
func (t *told) add(e Event) *Event {
	e.At = t.clock.now
	t.events = append(t.events, e)
	return &t.events[len(t.events)-1]
}

// attempt returns the event of the attempt under way, if one of the handlers has got it. The rule's
// own actions have the handler "".
func (t *told) attempt(id string, attempt int, handlers ...string) *Event {
	if len(t.events) == 0 {
		return nil
	}
	e := &t.events[len(t.events)-1]
	isSame := e.Event.ID == id && e.Event.Attempt == attempt && e.At.Equal(t.clock.now)
	if isSame && slices.Contains(handlers, e.Handler) {
		return e
	}
	return nil
}
