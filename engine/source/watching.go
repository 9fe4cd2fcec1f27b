package source

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/object"
)

// watching is one watch as the reflector sees it. Its goroutine, which ends with the watch, converts what comes and lets
// it through the gate.
//
// A watch of the server's that ends is followed by the next one from where it was: the reflector would take one that
// ended soon for a reason to list again. What the reflector sees end is a watch whose initial events were cut short, one
// that it stopped, or one with an ERROR event.
type watching struct {
	wire   *wire
	cancel context.CancelFunc
	events chan watch.Event // unbuffered: what is sent has been taken by the reflector

	options metav1.ListOptions // of the next one; its resourceVersion moves on with what was handed on
	initial bool               // initial events are coming
}

// ResultChan is closed when the watch ends.
func (w *watching) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch. It may be called more than once.
func (w *watching) Stop() { w.cancel() }

func (w *watching) run(ctx context.Context, inner watch.Interface, release func()) {
	defer close(w.events)
	defer w.cancel()
	for {
		over := w.forward(ctx, inner, release)
		inner.Stop()
		release()
		// Without a resourceVersion, or from 0, what comes is not in its order, and there is nowhere to go on from.
		if over || w.initial || w.options.ResourceVersion == "" || w.options.ResourceVersion == "0" {
			return
		}
		var err error
		inner, release, err = w.wire.open(ctx, w.options)
		if err != nil {
			w.report(ctx, err)
			return
		}
	}
}

// report hands the reflector an error that it would have had from opening the watch.
func (w *watching) report(ctx context.Context, err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) && ctx.Err() == nil {
		s := status.Status()
		w.send(ctx, watch.Event{Type: watch.Error, Object: &s})
	}
}

func (w *watching) send(ctx context.Context, ev watch.Event) bool {
	select {
	case w.events <- ev:
		return true
	case <-ctx.Done():
		return false
	}
}

// forward hands on what inner brings until it ends. It tells whether the whole watch is over.
func (w *watching) forward(ctx context.Context, inner watch.Interface, release func()) (over bool) {
	proven := time.NewTimer(w.wire.tuning.short) // a watch that brings nothing is well if it lasts
	defer proven.Stop()
	for first := true; ; {
		select {
		case <-ctx.Done():
			return true
		case <-proven.C:
			w.wire.well()
		case ev, ok := <-inner.ResultChan():
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
			var sent bool
			switch {
			case ev.Type == watch.Bookmark:
				sent = w.bookmark(ctx, ev, release)
			case w.initial:
				sent = w.initially(ctx, ev)
			default:
				sent = w.change(ctx, ev)
			}
			if !sent {
				return true
			}
		}
	}
}

// fail hands on an ERROR event, unless it says that what the server sent could not be decoded. That is what a
// connection that broke within a frame looks like: the first time, the watch is resumed. The second time in a row it is
// not the connection, and the reflector lists.
func (w *watching) fail(ctx context.Context, ev watch.Event) (over bool) {
	status, ok := ev.Object.(*metav1.Status)
	if ok && isGarbled(status) && !w.initial && !w.wire.garbled.Swap(true) {
		return false
	}
	if ok && w.initial && status.Code == http.StatusTooManyRequests {
		// watchList would sleep on it, deaf to its context.
		again := apierrors.NewServiceUnavailable(status.Message).Status()
		ev.Object = &again
	}
	w.send(ctx, ev)
	return true
}

// isGarbled knows the Status by which rest.Request's watches report what they could not decode.
func isGarbled(s *metav1.Status) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == "ClientWatchDecoding"
	})
}

func (w *watching) bookmark(ctx context.Context, ev watch.Event, release func()) bool {
	o, err := convertBookmark(ev.Object)
	if err != nil {
		w.wire.skip(ev.Object, err)
		return true
	}
	if w.initial && o.Annotations()[metav1.InitialEventsAnnotationKey] == "true" {
		release()
		w.wire.counts.lists.Add(1)
		w.initial = false
		w.options.SendInitialEvents, w.options.ResourceVersionMatch = nil, ""
	}
	if !w.initial {
		w.options.ResourceVersion = o.ResourceVersion()
	}
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: o})
}

// initially hands on one of the initial events, which are exempt from the gate: the reflector collects them until their
// end, and only then are they evaluated.
func (w *watching) initially(ctx context.Context, ev watch.Event) bool {
	o, err := convert(ev.Object, w.wire.keep)
	if err != nil {
		w.wire.skip(ev.Object, err)
		return true
	}
	return w.send(ctx, watch.Event{Type: ev.Type, Object: o})
}

// change hands on a change of an object, when there is room for it. An object that cannot be read does not exist, as in
// a list, where it is left out; so what becomes one is deleted.
func (w *watching) change(ctx context.Context, ev watch.Event) bool {
	o, err := convert(ev.Object, w.wire.keep)
	if err != nil {
		w.wire.skip(ev.Object, err)
		if o, err = identify(ev.Object); err != nil {
			return true
		}
		ev.Type = watch.Deleted
		w.wire.bare.add(o)
	}
	if err := w.wire.gate.enter(ctx, o); err != nil {
		w.wire.bare.take(o)
		return false
	}
	if !w.send(ctx, watch.Event{Type: ev.Type, Object: o}) {
		w.wire.gate.withdraw(o)
		w.wire.bare.take(o)
		return false
	}
	w.options.ResourceVersion = o.ResourceVersion()
	return true
}

// bare are the objects of which only the identity could be read, and that are on their way as deletions. They are as
// bounded as the gate is.
type bare struct {
	mu  sync.Mutex
	set map[*object.Object]struct{}
}

func (b *bare) add(o *object.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set == nil {
		b.set = map[*object.Object]struct{}{}
	}
	b.set[o] = struct{}{}
}

// take tells whether o is one, and forgets it.
func (b *bare) take(o *object.Object) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.set[o]
	delete(b.set, o)
	return ok
}
