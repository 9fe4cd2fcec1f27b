package source

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// wire is the API server as one generation's reflector sees it: a server that answers in the end.
// It retries all errors that the reflector could answer only with a relist, which loses history, or
// with a pause that ignores its context. (watchList pauses for up to a minute after a refused
// connection or a 429.) The reflector sees only what it can handle: success, a resourceVersion that
// is too old or too new, and a server without WatchList.
//
// The reflector's goroutine and its watches use a wire one after the other, and the two goroutines
// of a watch take turns: see watching.mu. client-go synchronizes the hand-over of the fields that
// have no lock here.
type wire struct {
	informer *Informer
	end      context.CancelCauseFunc // ends the generation, with a reason
	told     <-chan struct{}         // closed once the consumer knows all objects of the list
	handed   <-chan struct{}         // closed once client-go has handed over the list, after told
	// exact is the resourceVersion at which the list is to be, so that no change is missed; empty
	// once the server has refused it, and for most generations.
	exact   string
	widened <-chan struct{} // closed when the informer is to keep more than it did when this began

	saved   *Saved     // nil if there is none, or once the first watch has tried to resume from it
	asks    *apiClient // for the server's position; resume sets it
	resumed bool       // the list is what was saved
	// resumption is what the reflector gets next, after resumed has become true; nil once it has
	// it.
	resumption *resumption
	// current is the server's position at resume, and empty once a watch has reached it; guarded by
	// that watch's mu. parts says that only parts of objects were saved.
	current string
	parts   bool
	floor   string // the list may not be older; empty once the server has refused it

	items   int64       // of the list so far, over all pages; or initial events of the watch
	version string      // of the list; empty if no watch can go on from it
	asked   time.Time   // when the list was requested; zero if the server could give an older state
	listed  atomic.Bool // client-go has the whole list
	garbled atomic.Bool // the last watch ended with something that is no event
	calls   calls
}

// list answers the reflector's request for a list, or for one page of it.
func (w *wire) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if !w.calls.begin() {
		return nil, context.Canceled
	}
	defer w.calls.end()
	if r := w.resumption; r != nil && r.list != nil {
		list := r.list
		r.list = nil
		w.version = position(list.ResourceVersion)
		return list, nil
	}
	if w.listed.Load() {
		return nil, w.again(ctx)
	}
	if w.saved != nil { // client-go runs without WatchList
		w.saved = nil
		w.informer.feed.lost()
	}
	w.narrow(&o)
	w.raise(&o)
	isRaised := o.Continue == "" && (w.exact != "" || w.floor != "")
	var list *internalversion.List
	err := w.persist(ctx, func(err error) bool {
		return staleVersion(err) || o.Continue != "" && apierrors.IsBadRequest(err) ||
			isRaised && (apierrors.IsBadRequest(err) || apierrors.IsInvalid(err))
	}, func() error {
		release, err := w.slots().acquire(ctx, w.tuning().hold)
		if err != nil {
			return err
		}
		defer release()
		if o.Continue == "" {
			w.begins(o)
		}
		list, err = w.page(ctx, o)
		return err
	})
	if err != nil {
		w.refused(o, err)
		return nil, err
	}
	w.well()
	w.version = position(list.ResourceVersion)
	left := int64(0)
	if list.RemainingItemCount != nil {
		left = *list.RemainingItemCount
	}
	w.informer.counts.left.Store(left)
	if o.Continue == "" {
		w.informer.counts.lists.Add(1)
	}
	return list, nil
}

// begins notes that a list begins.
func (w *wire) begins(o metav1.ListOptions) {
	w.informer.counts.received.Store(0)
	w.items, w.asked = 0, time.Time{}
	if o.ResourceVersion == "" {
		w.asked = w.informer.parent.clock.Now()
	}
}

// page reads a page of a list, or a whole list.
func (w *wire) page(ctx context.Context, o metav1.ListOptions) (*internalversion.List, error) {
	list, n, err := w.informer.client.page(ctx, o, w.tuning().maxListed-w.items, w.initial)
	w.items += n
	return list, err
}

// again ends the generation once the consumer has taken all of its events. The next generation
// lists.
func (w *wire) again(ctx context.Context) error {
	select {
	case <-w.told:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := w.informer.gate.drain(ctx); err != nil {
		return err
	}
	w.end(errRelist)
	return errRelist
}

// initial prepares an object of the initial state. It returns false if the object is unreadable.
// The consumer gets the objects only when all of them have come.
func (w *wire) initial(e *entry) (ok bool) {
	if e.arrival.unfit != nil {
		w.informer.reader.unreadable(e)
		return false
	}
	w.informer.counts.received.Add(1)
	e.arrival.tree.Release()
	e.arrival = nil
	w.informer.feed.packListed(e)
	return true
}

// watch answers the reflector's request for a watch, with or without initial events.
func (w *wire) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if !w.calls.begin() {
		return nil, context.Canceled
	}
	out, err := w.follow(ctx, o)
	if err != nil {
		w.calls.end()
	}
	return out, err
}

// follow opens a watch and starts the goroutine that feeds it to the reflector. That goroutine
// calls w.calls.end.
func (w *wire) follow(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	isInitial := sendsInitialEvents(o)
	if isInitial && w.listed.Load() {
		return nil, w.again(ctx)
	}
	if isInitial && w.saved != nil && w.resume(ctx, o) {
		return nil, errResumed
	}
	if isInitial && w.exact != "" {
		return nil, errExact
	}
	if isInitial && w.informer.watches.isEndless.Load() {
		return nil, errEndless
	}
	if r := w.resumption; r != nil {
		w.resumption = nil
		w.calls.end() // its goroutine has a call of its own
		return r.watch, nil
	}
	if !isInitial {
		w.listed.Store(true)
	}
	w.narrow(&o)
	if isInitial {
		w.raise(&o)
		w.begins(o)
	} else {
		w.shorten(&o, false)
	}
	ctx, cancel := context.WithCancel(ctx)
	inner, release, err := w.open(ctx, o)
	if err != nil {
		cancel()
		if isInitial && staleVersion(err) {
			w.floor = ""
		}
		return nil, err
	}
	out := newWatching(w, o, cancel)
	go func() {
		defer w.calls.end()
		out.run(ctx, inner, release)
	}()
	return out, nil
}

// errEndless answers the reflector's request for a watch with initial events, if the server does
// not end them. The reflector then lists.
var errEndless = errors.New("the server does not end the initial events of watches")

// shorten sets how long a watch lasts, if that is shorter than usual: see hearing.
func (w *wire) shorten(o *metav1.ListOptions, isProbe bool) {
	lasts := time.Duration(0)
	switch {
	case isProbe:
		lasts = w.tuning().probe
	case !w.informer.hearing.isRegular.Load():
		lasts = w.tuning().brief
	default:
		return
	}
	o.TimeoutSeconds = new(int64(lasts / time.Second))
}

// open opens a watch. release frees the slot of the watch, and may be called late or twice.
func (w *wire) open(ctx context.Context, o metav1.ListOptions) (
	inner *stream, release func(), err error,
) {
	if err := w.hold(ctx); err != nil {
		return nil, nil, err
	}
	initial := sendsInitialEvents(o)
	err = w.persist(ctx, func(err error) bool {
		return staleVersion(err) || initial && noWatchList(err)
	}, func() (err error) {
		release = func() {}
		if initial {
			if release, err = w.slots().acquire(ctx, w.tuning().hold); err != nil {
				return err
			}
		}
		if inner, err = w.informer.client.watch(ctx, o); err != nil {
			release()
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	w.informer.watches.pace.began()
	w.informer.counts.watches.Add(1)
	return inner, release, nil
}

func (w *wire) slots() slots   { return w.informer.parent.slots }
func (w *wire) tuning() tuning { return w.informer.parent.tuning }
func (w *wire) reach() *reach  { return w.informer.parent.reach }

// position returns resourceVersion, or "" if no watch can go on from it. Without a resourceVersion,
// or from 0, events come in no order.
func position(resourceVersion string) string {
	if resourceVersion == "0" {
		return ""
	}
	return resourceVersion
}

// raise makes a request for the current state ask for one that is not older than what the consumer
// has taken. Each generation is client-go's first, so client-go itself would accept any state.
func (w *wire) raise(o *metav1.ListOptions) {
	if w.exact != "" && o.Continue == "" {
		o.ResourceVersion, o.ResourceVersionMatch = w.exact, metav1.ResourceVersionMatchExact
		return
	}
	if w.floor != "" && o.Continue == "" && (o.ResourceVersion == "" || o.ResourceVersion == "0") {
		o.ResourceVersion = w.floor
		o.Limit = 0 // with one, the server would take the floor for the exact version
	}
}

// refused notes that the server has refused a list, perhaps because of the resourceVersion that
// raise has set. A later page says nothing about the floor.
func (w *wire) refused(o metav1.ListOptions, err error) {
	if o.Continue == "" && (w.exact == "" || staleVersion(err)) {
		w.floor = ""
	}
	w.exact = ""
}

// narrow adds the informer's selectors to a request.
func (w *wire) narrow(o *metav1.ListOptions) {
	o.LabelSelector, o.FieldSelector = w.informer.sel.LabelSelector, w.informer.sel.FieldSelector
}

// hold waits before the next watch if the server ends watches as soon as they begin.
func (w *wire) hold(ctx context.Context) error {
	delay, often := w.informer.watches.pace.next(w.tuning().short, w.tuning().unreachablePause)
	if often {
		w.informer.health.trouble(Failing, "watches end as soon as they begin", true)
	}
	return sleep(ctx, jitter(delay))
}

// well notes that the server answers as it should.
func (w *wire) well() {
	w.reach().back()
	w.informer.health.well()
}

// persist calls try until it succeeds, until its error is one for the reflector, or until ctx ends.
// It pauses longer after each failure.
func (w *wire) persist(ctx context.Context, forReflector func(error) bool, try func() error) error {
	for pause := w.tuning().pause; ; {
		err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case forReflector(err):
			w.reach().back()
			return err
		}
		most, unserved := w.explain(ctx, err)
		if unserved {
			return err
		}
		delay := min(pause, most)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			delay = min(max(delay, time.Duration(seconds)*time.Second), w.tuning().maxPause)
		}
		if err := sleep(ctx, jitter(delay)); err != nil {
			return err
		}
		pause = min(2*pause, w.tuning().maxPause)
	}
}

// explain shows an error in the informer's state, and returns the longest pause before the next
// attempt. If the cluster does not serve the resource, explain ends the generation, and unserved is
// true. It believes a "not found" only if discovery agrees. That says nothing about the objects:
// see absence.
func (w *wire) explain(ctx context.Context, err error) (most time.Duration, unserved bool) {
	reason := reasonOf(err)
	_, isMute := errors.AsType[*silentError](err)
	_, isPlugin := errors.AsType[*PluginError](err)
	switch {
	case isPlugin:
		w.reach().away(reason)
		w.informer.health.trouble(Failing, reason, false)
	case isMute:
		w.informer.health.trouble(Failing, reason, true)
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		w.reach().back()
		switch answer, why := w.informer.parent.served.ask(ctx, w.informer.sel); {
		case ctx.Err() != nil:
			return 0, false
		case answer == isAbsent, answer == isSilent:
			w.end(notServedError(why))
			return 0, true
		case answer == isUnusable:
			w.informer.health.trouble(Unusable, why, true)
			return w.tuning().maxPause, false
		case apierrors.IsMethodNotSupported(err) && answer == isServed:
			w.informer.health.trouble(Unusable, reason, true)
			return w.tuning().maxPause, false
		case why != "":
			reason = why
		}
		w.informer.health.trouble(Failing, reason, true)
	case apierrors.IsForbidden(err):
		w.reach().back()
		w.informer.health.trouble(Forbidden, reason, true)
		return w.tuning().unreachablePause, false // somebody waits for it who has just granted the right
	case apierrors.IsUnauthorized(err):
		w.reach().away("the API server refuses the credentials: " + reason)
		w.informer.health.trouble(Failing, "the API server refuses the credentials: "+reason, false)
	case isUnreachable(err):
		w.reach().away("cannot reach the API server: " + reason)
		w.informer.health.trouble(Failing, "cannot reach the API server: "+reason, false)
		return w.tuning().unreachablePause, false
	default:
		w.reach().back()
		w.informer.health.trouble(Failing, reason, true)
	}
	return w.tuning().maxPause, false
}

// staleVersion reports whether err is about a resourceVersion that the server no longer has, or
// does not have yet. The reflector handles such errors.
func staleVersion(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// noWatchList reports whether err may be about initial events, which older servers refuse in
// several ways. The reflector then lists.
func noWatchList(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	return !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) &&
		!apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) &&
		!apierrors.IsTooManyRequests(err)
}

func isUnreachable(err error) bool {
	var u *url.Error
	var n net.Error
	return !errors.Is(err, errNoWatch) && (errors.As(err, &u) || errors.As(err, &n))
}

// reasonOf returns the text of an error, without the URL and cut to 300 bytes.
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

// calls counts the running requests. The reflector does not wait for a list that it gives up, so
// the end of the generation waits instead.
type calls struct {
	mu     sync.Mutex // guards closed, and open.Add
	closed bool
	open   sync.WaitGroup
}

// begin counts a request. It returns false, and counts nothing, after close.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.open.Add(1)
	}
	return !c.closed
}

func (c *calls) end() { c.open.Done() }

// close refuses new requests, and waits until the running ones end.
func (c *calls) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.open.Wait()
}
