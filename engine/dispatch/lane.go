package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/internal/seldom"
	"github.com/informd/informd/plugins/handler"
)

// Lane holds what one rule has for the handler. It is safe for concurrent use.
type Lane struct {
	dispatcher *Dispatcher
	rule       string
	resource   handler.Resource
	opts       LaneOptions
	queue      *queue.Queue[delta.Key, delivery.Delivery] // its lock is taken before those of this package

	acts        bool // what is delivered may change the cluster
	preparesAll bool // the Preparer completes each attempt
	isPlain     bool // nothing is prepared or slowed, unless a delivery asks for it

	isReady  bool // is among Dispatcher.ready; guarded by Dispatcher.mu
	isPaused bool // guarded by Dispatcher.mu
	isHeld   bool // guarded by Dispatcher.mu

	isHungry     bool      // is among Dispatcher.hungry; guarded by its mu
	loadAfter    time.Time // when the lane may be loaded for again; guarded by Dispatcher.hungry.mu
	loadFailures int       // the loader's alone

	owned

	failed    atomic.Pointer[Failure] // the last
	isCrowded atomic.Bool             // waits to be reported
	reports   reports
}

// LaneOptions are what a rule says of its delivery.
type LaneOptions struct {
	// Every keeps each change, up to MaxItems and MaxBytes (0: the defaults of package queue), instead of merging what waits
	// for one object.
	Every    bool
	MaxItems int
	MaxBytes int64

	// Preparer completes deliveries. nil hands over what was offered; nothing Undecided may be offered then.
	Preparer Preparer
	// ReadsChange means that the payload depends on more than the object's new state. If a change is merged, its payload is
	// then prepared anew, unless it became that of the newer change.
	ReadsChange bool
	// Attaches has the Preparer complete each attempt, because it attaches objects.
	Attaches bool
	// ActsItself means that the Preparer makes the actions, in the place of a handler's answer. The handler is not called,
	// and may be nil. The Preparer completes each attempt.
	ActsItself bool
	// Acts means that answers to the rule's events may change the cluster: the Actor is asked for a Delay. ActsItself
	// implies it.
	Acts bool

	// Own tells which changes the rule made itself, through the Actor: those are not delivered. nil delivers them.
	Own Own

	// Store records what waits and, under Every, holds what there is no memory for. Errors of its Load that wrap ErrNotYet
	// are no failure. nil records nothing.
	Store queue.Store[delta.Key, delivery.Delivery]
}

// maxReasons is how many different reasons of failures a lane logs per minute.
const maxReasons = 4

// Lane makes the lane of a rule, before or during Run. resource is what its matches are of.
func (d *Dispatcher) Lane(rule string, resource handler.Resource, o LaneOptions) *Lane {
	l := &Lane{
		dispatcher: d, rule: rule, resource: resource, opts: o,
		acts: o.Acts || o.ActsItself, preparesAll: o.Attaches || o.ActsItself,
		owned: owned{own: o.Own}, reports: reports{failing: seldom.Messages{Max: maxReasons}},
	}
	l.isPlain = !l.preparesAll && !l.acts
	l.queue = queue.New(queue.Options[delta.Key, delivery.Delivery]{
		Merge: l.merge,
		Every: o.Every, MaxItems: o.MaxItems, MaxBytes: o.MaxBytes, MaxDelay: maxDelay,
		Size: func(d delivery.Delivery) int64 { return size(&d) }, Store: o.Store, Now: d.opts.Clock.Now,
		Ready: func() { d.offer(l) }, Hungry: func() { d.hungry.offer(l) }, Crowded: l.noteCrowding,
	})
	return l
}

// Restore says what of one object is in the store alone: count deliveries, with numbers from first to last, of so many
// bytes. They are loaded when their turn comes, and delivered in order, before what is offered later. Restore is called
// before the lane is offered anything, and before Run.
func (l *Lane) Restore(key delta.Key, count int, first, last uint64, bytes int64) {
	l.queue.Restore(key, count, first, last, bytes)
}

// Doubt says whether what is offered from now on may have been delivered already. That is so after a restart, for what the
// API server tells once more because the program was killed before it was recorded. A deletion is then delivered, and
// cancels nothing out.
func (l *Lane) Doubt(on bool) { l.queue.Doubt(on) }

// Offer hands over a match. It is called within the Journal's Begin and End, and never blocks.
func (l *Lane) Offer(m rule.Match) {
	d := delivery.Delivery{Delta: m.Delta, Payload: m.Payload, Undecided: m.Undecided, Version: m.Version}
	if m.Version != "" && !l.admit(&d) {
		return
	}
	l.queue.Add(m.Delta.Key(), d)
}

// Redrive delivers a dead letter of this lane's rule once more: as it was, before what waits for its object, and with as
// many attempts as if it were new. Later changes of the object may have been delivered by then: that is up to whoever asks.
// Redrive is called within the Journal's Begin and End. If ok is false the lane is closed, and the letter not the lane's.
func (l *Lane) Redrive(letter Letter) (ok bool) {
	return l.queue.Redrive(letter.Delta.Key(), delivery.Delivery{
		Delta: letter.Delta, Payload: letter.Payload, Attempts: letter.Attempts,
	})
}

// Pause keeps what waits from being delivered until Resume. What is in flight goes on, and what waits is merged as ever.
func (l *Lane) Pause() {
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	l.isPaused = true
}

// Resume ends a Pause.
func (l *Lane) Resume() {
	l.dispatcher.mu.Lock()
	l.isPaused = false
	l.dispatcher.mu.Unlock()
	l.dispatcher.offer(l)
}

// Paused reports whether the lane is paused.
func (l *Lane) Paused() bool {
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	return l.isPaused
}

// Hold keeps what waits from being delivered, beside any Pause, until it is called with false. It is for whoever offers
// matches that cannot be decided yet.
func (l *Lane) Hold(on bool) {
	l.dispatcher.mu.Lock()
	l.isHeld = on
	l.dispatcher.mu.Unlock()
	l.dispatcher.offer(l)
}

// stands reports whether nothing is delivered. The caller holds Dispatcher.mu.
func (l *Lane) stands() bool { return l.isPaused || l.isHeld }

// Stats returns what waits.
func (l *Lane) Stats() queue.Stats { return l.queue.Stats() }

// Close forgets what waits and takes nothing more. What is in flight is neither interrupted nor repeated. Records stay, also
// of what is in flight: so Close is called after Run has returned, or when the rule is gone.
func (l *Lane) Close() {
	l.queue.Close()
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	l.dispatcher.suspects.forget(l)
}
