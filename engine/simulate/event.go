package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
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
	e := Event{At: r.clock.now, Rule: ev.Rule, Handler: r.name, Event: ev}
	r.events = append(r.events, e)
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

// perform records actions.
func (s *Simulation) perform(by action.By, ev *handler.Event, actions []handler.Action) error {
	var all []handler.Action
	var pruned []Prune
	for _, a := range actions {
		resource := a.Resource
		switch a.Verb {
		case action.Prune(resourceOf(resource), "").Verb:
			var selector string
			_ = json.Unmarshal(a.Object, &selector) // action.Prune has made it
			pruned = append(pruned, Prune{resource, selector})
		default:
			if !action.IsBreak(a) {
				all = append(all, a)
			}
		}
	}
	e := s.attempt(by.Handler, ev.ID)
	if e == nil {
		s.events = append(s.events, Event{
			At: s.clock.now, Rule: ev.Rule, Handler: by.Handler, Event: *ev,
		})
		e = &s.events[len(s.events)-1]
	}
	e.Actions, e.Pruned = all, pruned
	return nil
}

// died records a dead letter.
func (s *Simulation) died(l delivery.Letter) {
	name := l.Handler
	e := s.attempt(name, l.ID)
	if e == nil {
		s.events = append(s.events, Event{
			At: s.clock.now, Rule: l.Rule, Handler: name, Event: l.Event(),
		})
		e = &s.events[len(s.events)-1]
	}
	e.Dead = l.Reason
}

// attempt returns the event of the attempt under way, or nil if the handler has not got it.
func (s *Simulation) attempt(handler, id string) *Event {
	if len(s.events) == 0 || handler == "" {
		return nil
	}
	if e := &s.events[len(s.events)-1]; e.Handler == handler && e.Event.ID == id && e.At.Equal(s.clock.now) {
		return e
	}
	return nil
}
