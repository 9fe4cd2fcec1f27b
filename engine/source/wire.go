package source

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/object"
)

// wire is the API server as one generation's reflector sees it: one that answers in the end. It retries by itself
// whatever the reflector could only answer with a relist, by which history is lost, or with a pause that no context can
// interrupt (watchList's, of up to a minute, after a refused connection or a 429). The reflector gets to see what is
// meant for it: success, a resourceVersion that is too old or too new, and that a server has no WatchList.
type wire struct {
	client *client
	sel    Selection
	tuning tuning
	slots  slots
	served *served
	reach  *reach
	status *status
	gate   *gate
	counts *counts
	settle func(*entry)        // of what is not evaluated for now
	skip   func(*entry)        // told of objects that cannot be read
	gone   func(reason string) // ends the generation: the resource is not served

	log      *slog.Logger
	saved    *Saved // what the first watch is answered from; nil if there is nothing, or no longer
	restored func(*object.Object) *entry
	compare  func() // has what was saved compared with a list

	calls   calls
	pace    pace
	garbled atomic.Bool // the last watch ended with something that could not be decoded
}

// list answers the reflector's list.
func (w *wire) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if !w.calls.begin() {
		return nil, context.Canceled
	}
	defer w.calls.end()
	if w.saved != nil { // client-go was told to do without WatchList
		w.saved = nil
		w.compare()
	}
	w.narrow(&o)
	var out runtime.Object
	err := w.persist(ctx, func(err error) bool {
		return staleVersion(err) || o.Continue != "" && apierrors.IsBadRequest(err)
	}, func() error {
		release, err := w.slots.acquire(ctx, w.tuning.hold)
		if err != nil {
			return err
		}
		defer release()
		out, err = w.client.list(ctx, o, w.initial)
		return err
	})
	if err != nil {
		return nil, err
	}
	w.well()
	if o.Continue == "" {
		w.counts.lists.Add(1)
	}
	return out, nil
}

// initial takes in an object of the initial state, and tells whether it could be read. It is not evaluated before all
// are there.
func (w *wire) initial(e *entry) (ok bool) {
	if e.arrival.unfit != nil {
		w.skip(e)
		return false
	}
	e.arrival.tree.Release()
	e.arrival = nil
	w.settle(e)
	return true
}

// watch answers the reflector's watch, with initial events or without.
func (w *wire) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if !w.calls.begin() {
		return nil, context.Canceled
	}
	if w.saved != nil && sendsInitialEvents(o) {
		if resumed, ok := w.resume(ctx, o); ok {
			return resumed, nil
		}
	}
	w.narrow(&o)
	ctx, cancel := context.WithCancel(ctx)
	inner, release, err := w.open(ctx, o)
	if err != nil {
		cancel()
		w.calls.end()
		return nil, err
	}
	out := &watching{wire: w, options: o, initial: sendsInitialEvents(o), cancel: cancel, events: make(chan watch.Event, readAhead)}
	go func() {
		defer w.calls.end()
		out.run(ctx, inner, release)
	}()
	return out, nil
}

// open opens a watch. release ends its share in the slots; it does no harm to call it late or twice.
func (w *wire) open(ctx context.Context, o metav1.ListOptions) (inner watch.Interface, release func(), err error) {
	if err := w.hold(ctx); err != nil {
		return nil, nil, err
	}
	initial := sendsInitialEvents(o)
	err = w.persist(ctx, func(err error) bool {
		return staleVersion(err) || initial && noWatchList(err)
	}, func() (err error) {
		release = func() {}
		if initial {
			if release, err = w.slots.acquire(ctx, w.tuning.hold); err != nil {
				return err
			}
		}
		if inner, err = w.client.watch(ctx, o); err != nil {
			release()
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	w.pace.opened()
	w.counts.watches.Add(1)
	return inner, release, nil
}

func (w *wire) narrow(o *metav1.ListOptions) {
	o.LabelSelector, o.FieldSelector = w.sel.LabelSelector, w.sel.FieldSelector
}

// hold keeps a server that ends its watches as soon as it has opened them from being asked for the next at network speed.
func (w *wire) hold(ctx context.Context) error {
	delay, often := w.pace.next(w.tuning.short, w.tuning.unreachablePause)
	if often {
		w.status.trouble(Failing, "watches end as soon as they begin", true)
	}
	return sleep(ctx, jitter(delay))
}

// well tells that the server does what it should.
func (w *wire) well() {
	w.reach.back()
	w.status.well()
}

// persist tries until it succeeds, the error is one for the reflector, or ctx ends.
func (w *wire) persist(ctx context.Context, forReflector func(error) bool, try func() error) error {
	for pause := w.tuning.pause; ; {
		err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case forReflector(err):
			w.reach.back()
			return err
		}
		most, gone := w.explain(ctx, err)
		if gone {
			return err
		}
		delay := min(pause, most)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			delay = min(max(delay, time.Duration(seconds)*time.Second), w.tuning.maxPause)
		}
		if err := sleep(ctx, jitter(delay)); err != nil {
			return err
		}
		pause = min(2*pause, w.tuning.maxPause)
	}
}

// explain puts an error into the informer's state, and says how long to pause at most. A resource that is not served
// ends the generation. A server that says "not found" is believed only if its discovery agrees: one of several API
// servers may be behind, and to take the resource for gone means to tell that all of its objects are.
func (w *wire) explain(ctx context.Context, err error) (most time.Duration, gone bool) {
	reason := reasonOf(err)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		w.reach.back()
		switch answer, why := w.served.ask(ctx, w.sel); {
		case ctx.Err() != nil:
			return 0, false
		case answer == isAbsent, answer == isSilent:
			w.gone(why)
			return 0, true
		case why != "":
			reason = why
		}
		w.status.trouble(Failing, reason, true)
	case apierrors.IsForbidden(err):
		w.reach.back()
		w.status.trouble(Forbidden, reason, true)
	case apierrors.IsUnauthorized(err):
		w.reach.away("the API server refuses the credentials: " + reason)
		w.status.trouble(Failing, "the API server refuses the credentials: "+reason, false)
	case isUnreachable(err):
		w.reach.away("cannot reach the API server: " + reason)
		w.status.trouble(Failing, "cannot reach the API server: "+reason, false)
		return w.tuning.unreachablePause, false
	default:
		w.reach.back()
		w.status.trouble(Failing, reason, true)
	}
	return w.tuning.maxPause, false
}

// staleVersion tells of a resourceVersion that the server no longer has, or does not have yet: the reflector knows what
// to do.
func staleVersion(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// noWatchList tells of an answer that may be about initial events, which older servers refuse in several ways: the
// reflector then lists.
func noWatchList(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	return !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) &&
		!apierrors.IsMethodNotSupported(err) && !apierrors.IsTooManyRequests(err)
}

func isUnreachable(err error) bool {
	var u *url.Error
	var n net.Error
	return errors.As(err, &u) || errors.As(err, &n)
}

// reasonOf is an error for people: without the URL, and not long.
func reasonOf(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	text := err.Error()
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

func sendsInitialEvents(o metav1.ListOptions) bool {
	return o.SendInitialEvents != nil && *o.SendInitialEvents
}

// calls are the requests that are under way. The reflector does not wait for a list that it gives up, so the
// generation's end does.
type calls struct {
	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
}

func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.open.Add(1)
	}
	return !c.closed
}

func (c *calls) end() { c.open.Done() }

// close lets no more begin, and waits for those that have.
func (c *calls) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.open.Wait()
}
