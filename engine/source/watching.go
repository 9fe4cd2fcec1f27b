package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// readAhead is how many events are read together at most, and how many may wait for the reflector.
// Beyond that, the informer stops reading the watch.
const readAhead = 64

// watching is one watch as the reflector sees it. One goroutine reads the server's watch and passes
// its events through the gate. An attendant, one for each watch of the server, does what no event
// brings about: see attend.
//
// When the server's watch ends, watching opens the next one from the same position. It hides the
// end because a reflector lists again if a watch ends soon. The reflector sees a watch end only in
// three cases: its initial events were cut short, the reflector stopped it, or an ERROR event came.
type watching struct {
	wire   *wire
	cancel context.CancelFunc
	events chan watch.Event // the reflector receives every event, unless the generation ends
	// answered gets the server's answer to a request that followed the opening of a watch that goes
	// on from a position. It is nil otherwise.
	answered <-chan answer

	// opened is the resourceVersion from which the server's watch was opened, or empty for one with
	// initial events. It changes only between two attendants.
	opened string

	// mu is held while events are passed on, and while the attendant acts. It guards the fields
	// below, and wire.current.
	mu      sync.Mutex
	options metav1.ListOptions // of the server's next watch; the resourceVersion advances
	initial bool               // the initial events have not ended
	steady  chan struct{}      // closed once neither initial events nor wire.current are awaited
	came    time.Time          // when the last frames came; zero before the first
	changed time.Time          // when the first initial event came that is no addition; or zero
	isProbe bool               // the server's watch was silent: the present one is a probe
}

func newWatching(w *wire, o metav1.ListOptions, cancel context.CancelFunc) *watching {
	out := &watching{
		wire: w, cancel: cancel, events: make(chan watch.Event, readAhead),
		options: o, initial: sendsInitialEvents(o), steady: make(chan struct{}),
	}
	if !out.initial {
		out.opened = o.ResourceVersion
	}
	return out
}

// ResultChan is closed when the watch ends.
func (w *watching) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch. It may be called more than once.
func (w *watching) Stop() { w.cancel() }

// run feeds the reflector until the watch is over. release frees the slot that inner holds.
func (w *watching) run(ctx context.Context, inner *stream, release func()) {
	defer close(w.events)
	defer w.cancel()
	if !w.initial && !w.behindList(ctx) {
		inner.close()
		release()
		return
	}
	for {
		over := w.forward(ctx, inner, release)
		inner.close()
		release()
		if over || w.initial || position(w.options.ResourceVersion) == "" {
			return
		}
		o := w.options
		w.wire.shorten(&o, w.isProbe)
		w.opened = o.ResourceVersion
		var err error
		inner, release, err = w.wire.open(ctx, o)
		if err != nil {
			w.report(ctx, err)
			return
		}
		if w.wire.asks == nil {
			w.wire.asks = w.wire.informer.asks()
		}
		w.answered = w.wire.ask(ctx)
	}
}

// behindList waits until the consumer knows all objects of the list that the watch follows, so that
// the position never moves back. It returns false if ctx ends first.
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
		w.wire.informer.watches.broke(reasonOf(err))
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
func (w *watching) forward(ctx context.Context, inner *stream, release func()) (over bool) {
	w.mu.Lock()
	w.checkSteady()
	w.mu.Unlock()
	attended, stop := context.WithCancel(ctx)
	defer stop()
	var attendant sync.WaitGroup
	attendant.Go(func() { w.attend(attended, inner) })
	var read []received
	for isWell, more := false, true; more; {
		read = inner.read(read[:0], readAhead)
		hears := read[0].err == nil && read[0].event.Type != watch.Error
		w.mu.Lock()
		if hears {
			w.hear()
		}
		if hears && !isWell {
			isWell = true
			w.wire.well()
			w.wire.garbled.Store(false)
		}
		for n := 0; more && n < len(read); n++ {
			more, over = w.take(ctx, inner, read[n].event, read[n].err, release)
		}
		if !more {
			stop() // the attendant must not move the watch after that
		}
		w.mu.Unlock()
		clear(read)
	}
	attendant.Wait()
	return over
}

// take passes on what next of a stream has returned. more is false if the stream is over, and over
// is true if the whole watch is. w.mu is held, as it is for all that take calls.
func (w *watching) take(
	ctx context.Context, inner *stream, ev watch.Event, err error, release func(),
) (more, over bool) {
	switch {
	case ctx.Err() != nil:
		return false, true
	case err == io.EOF && w.isDue(inner):
		w.ended()
		return false, false
	case err != nil:
		return false, isGarbled(err) && w.garbled(ctx, err)
	case ev.Type == watch.Error:
		if status, ok := ev.Object.(*metav1.Status); ok {
			w.wire.informer.watches.broke(reasonOf(&apierrors.StatusError{ErrStatus: *status}))
		}
		w.fail(ctx, ev)
		return false, true
	case w.isTooMuch(ev):
		return false, false
	case !w.pass(ctx, ev, release):
		return false, true
	}
	w.checkSteady()
	return true, false
}

// checkSteady closes steady once the watch is steady. w.mu is held.
func (w *watching) checkSteady() {
	if w.initial || w.wire.current != "" {
		return
	}
	select {
	case <-w.steady:
	default:
		close(w.steady)
	}
}

// looks is how often in a row the server must be found silent. A single look could come right after
// informd itself had to stop, and before it has read what came meanwhile.
const looks = 4

// attend does what no event brings about, until ctx ends:
//   - A watch without events proves well by lasting, unless it is a probe.
//   - A watch on which nothing comes is cut: see hearing.
//   - A watch from a position that the server has not reached ends the generation.
//   - A resumed watch has caught up once the server is silent. An idle resource's first bookmark
//     can take a minute.
//   - A steady watch ends when the informer is to keep more of its objects. Before that, the list,
//     or what was missed since the saved state, comes first.
func (w *watching) attend(ctx context.Context, inner *stream) {
	tuning := w.wire.tuning()
	proven := time.NewTimer(tuning.short)
	defer proven.Stop()
	hush := newOverhearing(w, inner)
	defer hush.timer.Stop()
	calm := time.NewTimer(tuning.calm)
	defer calm.Stop()
	answered, pause, silent := w.answered, tuning.still.silence/looks, 0
	w.answered = nil
	look := time.NewTimer(pause)
	defer look.Stop()
	steady, handed, widened := w.steady, (<-chan struct{})(nil), (<-chan struct{})(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-proven.C:
			w.lasts(ctx)
		case <-w.wire.informer.hearing.doubted:
			hush.doubt(ctx)
		case <-calm.C:
			w.wire.informer.watches.held()
			w.lasts(ctx)
		case <-hush.timer.C:
			hush.look(ctx)
		case a := <-answered:
			if w.isBefore(ctx, a) {
				return
			}
			answered = nil
			if steady != nil {
				pause, silent = min(pause, tuning.still.after(a, w.wire.parts)/looks), 0
				look.Reset(pause)
			}
		case <-look.C:
			if silent++; !w.isSilent(ctx, inner, pause, silent) {
				silent = 0
			}
			look.Reset(pause)
		case <-steady:
			look.Stop()
			steady, handed = nil, w.wire.handed
		case <-handed:
			handed, widened = nil, w.wire.widened
		case <-widened:
			w.widen(ctx)
			return
		}
	}
}

// isSilent reports whether the server has sent nothing for a pause. If it finds that for the last
// of all looks, it makes a resumed watch fresh.
func (w *watching) isSilent(
	ctx context.Context, inner *stream, pause time.Duration, look int,
) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil || w.wire.current == "" || inner.waited() < pause {
		return false
	}
	if look == looks {
		if !w.fresh(ctx) {
			w.cancel()
		}
		w.checkSteady()
	}
	return true
}

// widen ends the generation, once the consumer has taken all of its events.
func (w *watching) widen(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil { // the next attendant does it
		return
	}
	w.wire.informer.watches.pace.forget() // that watch was ended on purpose, however short it was
	w.wire.informer.cache.endForWidening()
	_ = w.wire.again(ctx) // fails if the generation ends anyway
	w.cancel()
}

// isTooMuch reports whether an event adds an object beyond what a list may have. The watch ends,
// and another one begins after a pause.
func (w *watching) isTooMuch(ev watch.Event) bool {
	i, most := w.wire.informer, w.wire.tuning().maxListed
	if w.initial || ev.Type != watch.Added || i.counts.objects.Load() < most {
		return false
	}
	err := errTooMany(most)
	i.health.trouble(Failing, err.Error(), true)
	i.parent.sayer.warn(i.log, "the watch ends", i.sel.String()+" too many", "error", err)
	return true
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

// garbled handles a body that is no watch. The first time, the watch resumes, because a connection
// may be to blame. The second time in a row, the reflector lists. over is true if the whole watch
// is over.
func (w *watching) garbled(ctx context.Context, err error) (over bool) {
	w.wire.informer.watches.broke(reasonOf(err))
	if !w.initial && !w.wire.garbled.Swap(true) {
		return false
	}
	status := apierrors.NewInternalError(fmt.Errorf("read the watch: %w", err)).Status()
	w.fail(ctx, watch.Event{Type: watch.Error, Object: &status})
	return true
}

// fail forwards an ERROR event, which ends the watch.
func (w *watching) fail(ctx context.Context, ev watch.Event) {
	if w.initial {
		w.wire.floor = ""
	}
	status, ok := ev.Object.(*metav1.Status)
	if ok && w.initial && status.Code == http.StatusTooManyRequests {
		// The reflector's watchList would sleep on a 429, and ignore its context.
		again := apierrors.NewServiceUnavailable(status.Message).Status()
		ev.Object = &again
	}
	w.send(ctx, ev)
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
		w.wire.informer.hearing.isRegular.CompareAndSwap(false, !ended)
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
	if ev.Type != watch.Added && w.changed.IsZero() {
		w.changed = w.came
	}
	most := w.wire.tuning().maxListed
	if w.wire.items++; w.wire.items > most {
		w.garbled(ctx, errTooMany(most))
		return false
	}
	if !w.wire.initial(e) {
		if ev.Type == watch.Added || e.Name() == "" || e.arrival.isForeign {
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
		w.wire.informer.reader.unreadable(e)
		if e.Name() == "" || e.arrival.isForeign {
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
