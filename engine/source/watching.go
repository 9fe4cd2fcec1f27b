package source

import (
	"context"
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
// A watch that ends before it has brought anything is opened again, from where it began, without the reflector, which
// would answer with a relist.
type watching struct {
	wire    *wire
	options metav1.ListOptions
	cancel  context.CancelFunc
	events  chan watch.Event // unbuffered: what is sent has been taken by the reflector
}

// ResultChan is closed when the watch ends.
func (w *watching) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch. It may be called more than once.
func (w *watching) Stop() { w.cancel() }

func (w *watching) run(ctx context.Context, inner watch.Interface, release func()) {
	defer close(w.events)
	defer w.cancel()
	for {
		forwarded := w.forward(ctx, inner, release)
		inner.Stop()
		release()
		if forwarded || ctx.Err() != nil || sendsInitialEvents(w.options) {
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
	if status, ok := err.(apierrors.APIStatus); ok && ctx.Err() == nil {
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

// forward hands on what inner brings until it ends, and tells whether there was anything.
func (w *watching) forward(ctx context.Context, inner watch.Interface, release func()) (forwarded bool) {
	initial := sendsInitialEvents(w.options)
	proven := time.NewTimer(w.wire.tuning.short) // a watch that brings nothing is well if it lasts
	defer proven.Stop()
	for {
		select {
		case <-ctx.Done():
			return forwarded
		case <-proven.C:
			w.wire.well()
		case ev, ok := <-inner.ResultChan():
			if !ok {
				return forwarded
			}
			if ev.Type == watch.Error {
				return w.fail(ctx, ev, initial) || forwarded
			}
			if !forwarded {
				w.wire.well()
				w.wire.garbled.Store(false)
			}
			var sent bool
			switch {
			case ev.Type == watch.Bookmark:
				sent = w.bookmark(ctx, ev, func() { initial = false; release(); w.wire.counts.lists.Add(1) })
			case initial:
				sent = w.initial(ctx, ev)
			default:
				sent = w.change(ctx, ev)
			}
			if !sent {
				return true // ctx has ended
			}
			forwarded = true
		}
	}
}

// fail hands on an ERROR event, unless it says that what the server sent could not be decoded. That is what a
// connection that broke within a frame looks like: the first time, the watch is resumed. The second time in a row it is
// not the connection, and the reflector lists.
func (w *watching) fail(ctx context.Context, ev watch.Event, initial bool) (handed bool) {
	status, ok := ev.Object.(*metav1.Status)
	if ok && isGarbled(status) && !initial && !w.wire.garbled.Swap(true) {
		return false
	}
	if ok && initial && status.Code == http.StatusTooManyRequests {
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

func (w *watching) bookmark(ctx context.Context, ev watch.Event, initialEnd func()) bool {
	o, err := convertBookmark(ev.Object)
	if err != nil {
		w.wire.skip(nil, err)
		return true
	}
	if o.Annotations()[metav1.InitialEventsAnnotationKey] == "true" && sendsInitialEvents(w.options) {
		initialEnd()
	}
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: o})
}

// initial hands on one of the initial events, which are exempt from the gate: the reflector collects them until their
// end, and only then are they evaluated.
func (w *watching) initial(ctx context.Context, ev watch.Event) bool {
	o, err := convert(ev.Object)
	if err != nil {
		w.wire.skip(ev.Object, err)
		return true
	}
	return w.send(ctx, watch.Event{Type: ev.Type, Object: o})
}

// change hands on a change of an object, when there is room for it. An object that cannot be read does not exist, as in
// a list, where it is left out; so what becomes one is deleted.
func (w *watching) change(ctx context.Context, ev watch.Event) bool {
	o, err := convert(ev.Object)
	if err != nil {
		w.wire.skip(ev.Object, err)
		if o, err = identify(ev.Object); err != nil {
			return true
		}
		ev.Type = watch.Deleted
		w.wire.bare.add(o)
	}
	if err := w.wire.gate.enter(ctx, o); err != nil {
		return false
	}
	if !w.send(ctx, watch.Event{Type: ev.Type, Object: o}) {
		w.wire.gate.withdraw(o)
		return false
	}
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
