package source

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// readAhead is how many events may wait for the reflector. Beyond that, the informer stops reading
// the watch.
const readAhead = 64

// watching is one watch as the reflector sees it. Its goroutine passes events through the gate, and
// ends with the watch.
//
// When the server's watch ends, watching opens the next one from the same position. It hides the
// end because a reflector lists again if a watch ends soon. The reflector sees a watch end only in
// three cases: its initial events were cut short, the reflector stopped it, or an ERROR event came.
type watching struct {
	wire   *wire
	cancel context.CancelFunc
	events chan watch.Event // the reflector receives every event, unless the generation ends

	options metav1.ListOptions // of the server's next watch; the resourceVersion advances
	initial bool               // the initial events have not ended
	// answered gets the server's answer to a request that followed the opening of a resumed watch.
	// It is nil otherwise.
	answered <-chan answer
}

// ResultChan is closed when the watch ends.
func (w *watching) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch. It may be called more than once.
func (w *watching) Stop() { w.cancel() }

// run feeds the reflector until the watch is over. release frees the slot that inner holds.
func (w *watching) run(ctx context.Context, inner watch.Interface, release func()) {
	defer close(w.events)
	defer w.cancel()
	if !w.initial && !w.behindList(ctx) {
		inner.Stop()
		release()
		return
	}
	for {
		over := w.forward(ctx, inner, release)
		inner.Stop()
		release()
		if over || w.initial || position(w.options.ResourceVersion) == "" {
			return
		}
		var err error
		inner, release, err = w.wire.open(ctx, w.options)
		if err != nil {
			w.report(ctx, err)
			return
		}
		if w.wire.current != "" {
			w.answered = w.wire.ask(ctx)
		}
	}
}

// behindList waits until the consumer has taken the list that the watch follows, so that the
// position never moves back. It returns false if ctx ends first.
func (w *watching) behindList(ctx context.Context) bool {
	select {
	case <-w.wire.told:
		return true
	case <-ctx.Done():
		return false
	}
}

// mark marks the position that the watch has reached. The consumer's position moves there once it
// has taken all earlier events.
func (w *watching) mark(caughtUp bool) {
	i := w.wire.informer
	if m, isReached := i.gate.mark(position(w.options.ResourceVersion), caughtUp); isReached {
		i.reached(m)
	}
}

// report sends the reflector an error of opening the server's next watch, as an ERROR event.
func (w *watching) report(ctx context.Context, err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) && ctx.Err() == nil {
		s := status.Status()
		w.send(ctx, watch.Event{Type: watch.Error, Object: &s})
	}
}

// send sends an event to the reflector. It returns false if ctx ends before the reflector receives
// it.
func (w *watching) send(ctx context.Context, ev watch.Event) bool {
	select {
	case w.events <- ev:
		return true
	case <-ctx.Done():
		return false
	}
}

// forward forwards the events of inner until inner ends. over is true if the whole watch is over.
func (w *watching) forward(ctx context.Context, inner watch.Interface, release func()) (over bool) {
	proven := time.NewTimer(w.wire.tuning().short) // a watch without events proves well by lasting
	defer proven.Stop()
	// An idle resource's first bookmark can take a minute. So a server that stays silent has sent
	// everything.
	quiet, answered := w.wire.tuning().silence, w.answered
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	var last time.Time // when the last event came
	for first := true; ; {
		var ev watch.Event
		var came, ok bool
		widened := w.wire.widened
		if w.initial || w.wire.current != "" {
			widened = nil // the list, or what was missed since the saved state, comes first
		}
		select {
		case <-widened:
			w.wire.informer.widening()
			_ = w.wire.again(ctx) // fails if the generation ends anyway
			return true
		case <-ctx.Done():
			return true
		case <-proven.C:
			w.wire.well()
		case a := <-answered:
			quiet, answered = min(quiet, w.wire.tuning().hushAfter(a.took)), nil
			since := a.at // it may have answered while the consumer took the list
			if last.After(since) {
				since = last
			}
			silence.Reset(quiet - time.Since(since))
		case <-silence.C:
			select {
			case ev, ok = <-inner.ResultChan():
				came = true // it was not silent: the events waited
			default:
				if w.wire.current != "" && !w.fresh(ctx) {
					return true
				}
			}
		case ev, ok = <-inner.ResultChan():
			came = true
		}
		if !came {
			continue
		}
		if !ok {
			return false
		}
		if ev.Type == watch.Error {
			return w.fail(ctx, ev)
		}
		if first {
			first = false
			w.wire.well()
			w.wire.garbled.Store(false)
		}
		if !w.pass(ctx, ev, release) {
			return true
		}
		if w.wire.current != "" {
			last = time.Now()
			silence.Reset(quiet)
		}
	}
}

// pass passes on an event of the server, other than an ERROR. It returns false if the whole watch
// is over.
func (w *watching) pass(ctx context.Context, ev watch.Event, release func()) (sent bool) {
	switch {
	case ev.Type == watch.Bookmark:
		sent = w.bookmark(ctx, ev, release)
	case w.initial:
		sent = w.initially(ctx, ev)
	default:
		sent = w.change(ctx, ev)
	}
	if sent && w.reached() {
		sent = w.fresh(ctx)
	}
	return sent
}

// fail forwards an ERROR event. over is true if the watch is over. A connection that breaks within
// a frame shows as an ERROR event about a frame that cannot be decoded. The first time, the watch
// resumes. The second time in a row, the connection is not to blame, and the reflector lists.
func (w *watching) fail(ctx context.Context, ev watch.Event) (over bool) {
	status, ok := ev.Object.(*metav1.Status)
	if ok && isGarbled(status) && !w.initial && !w.wire.garbled.Swap(true) {
		return false
	}
	if w.initial {
		w.wire.floor = ""
	}
	if ok && w.initial && status.Code == http.StatusTooManyRequests {
		// The reflector's watchList would sleep on a 429, and ignore its context.
		again := apierrors.NewServiceUnavailable(status.Message).Status()
		ev.Object = &again
	}
	w.send(ctx, ev)
	return true
}

// isGarbled reports whether the Status is the one that rest.Request's watches send for a frame that
// they cannot decode.
func isGarbled(s *metav1.Status) bool {
	return s.Details != nil &&
		slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
			return c.Type == "ClientWatchDecoding"
		})
}

// bookmark forwards a bookmark, and marks its position. It returns false if ctx ends first.
func (w *watching) bookmark(ctx context.Context, ev watch.Event, release func()) bool {
	o, ok := ev.Object.(*entry)
	if !ok {
		return true
	}
	ended := false
	if w.initial && o.Annotations()[metav1.InitialEventsAnnotationKey] == "true" {
		release()
		w.wire.informer.counts.lists.Add(1)
		w.initial, ended = false, true
		w.wire.version = position(o.ResourceVersion())
		w.wire.listed.Store(true)
		w.options.SendInitialEvents, w.options.ResourceVersionMatch = nil, ""
	}
	if !w.initial {
		w.options.ResourceVersion = o.ResourceVersion()
	}
	if !w.send(ctx, ev) {
		return false
	}
	switch {
	case ended:
		return w.behindList(ctx)
	case !w.initial && w.wire.current == "":
		w.mark(false)
	}
	return true
}

// initially forwards an initial event. Initial events bypass the gate: the reflector collects them,
// and the consumer gets them only after the last one. initially returns false if ctx ends first.
func (w *watching) initially(ctx context.Context, ev watch.Event) bool {
	e, ok := ev.Object.(*entry)
	if !ok {
		return true
	}
	if !w.wire.initial(e) {
		if ev.Type == watch.Added || e.Name() == "" {
			return true
		}
		ev.Type, e.arrival = watch.Deleted, nil // the object became unreadable meanwhile
	}
	return w.send(ctx, ev)
}

// change forwards a change of an object, once the gate has room for it. It returns false if ctx
// ends first. An unreadable object counts as absent, as in a list, so an object that becomes
// unreadable is deleted.
func (w *watching) change(ctx context.Context, ev watch.Event) bool {
	e, ok := ev.Object.(*entry)
	if !ok {
		return true
	}
	if e.arrival.unfit != nil {
		w.wire.informer.unreadable(e)
		if e.Name() == "" {
			return true
		}
		ev.Type = watch.Deleted
	}
	var err error
	if e.arrival.number, err = w.wire.informer.gate.enter(ctx); err != nil {
		return false
	}
	version, number := e.ResourceVersion(), e.arrival.number // not ours after send
	if !w.send(ctx, ev) {
		w.wire.informer.gate.withdraw(number)
		return false
	}
	w.options.ResourceVersion = version
	return true
}
