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

// Lane holds the deliveries of one rule for the handler. It is safe for concurrent use. It has
// many fields because a rule's settings, its queue and what operators see of it meet here.
type Lane struct {
	dispatcher *Dispatcher
	rule       string
	resource   handler.Resource
	opts       LaneOptions
	// its lock: after Dispatcher.mu, before owned.mu
	queue *queue.Queue[delta.Key, delivery.Delivery]

	acts        bool // its deliveries may change the cluster
	preparesAll bool // the Preparer completes each attempt
	isPlain     bool // deliveries need neither preparing nor slowing unless they ask for it

	isReady  bool // is in Dispatcher.ready; guarded by Dispatcher.mu
	isPaused bool // guarded by Dispatcher.mu
	isHeld   bool // guarded by Dispatcher.mu

	isHungry     bool      // is in Dispatcher.hungry; guarded by Dispatcher.hungry.mu
	loadAfter    time.Time // when the lane may load again; only the loader uses it
	loadFailures int       // load errors in a row; only the loader uses it

	owned

	failed    atomic.Pointer[Failure] // the last failure
	isCrowded atomic.Bool             // is in Dispatcher.crowded
	reports   reports
}

// LaneOptions describe how a rule's events are delivered.
type LaneOptions struct {
	// Every keeps each change, instead of merging those that wait for one object. MaxItems and
	// MaxBytes bound that; 0 means the defaults of package queue.
	Every    bool
	MaxItems int
	MaxBytes int64

	// Preparer completes deliveries. nil delivers matches as they were offered, and then none may
	// be Undecided.
	Preparer Preparer
	// ReadsChange means that the payload depends on more than the object's new state. The Preparer
	// then remakes the payload of a merged change, unless the result is just the newer change.
	ReadsChange bool
	// Attaches means that the rule attaches objects, so the Preparer completes each attempt.
	Attaches bool
	// ActsItself means that the Preparer makes the rule's own actions, and completes each attempt.
	// If the Recipient has a Handler, they follow once that has acknowledged the event and the
	// actions of its answer are performed.
	ActsItself bool
	// Actor performs the rule's own actions. nil means Options.Actor.
	Actor Actor
	// Acts means that answers to the rule's events may change the cluster, so the dispatcher asks
	// the Actor for a Delay. ActsItself implies it.
	Acts bool

	// Own recognizes changes that the rule made itself through the Actor. The lane drops those. If
	// nil, the lane delivers them.
	Own Own

	// Store records what waits. Under Every it also holds what does not fit into memory. Errors of
	// its Load that wrap ErrNotYet do not count as failures. nil records nothing.
	Store queue.Store[delta.Key, delivery.Delivery]
}

// actsNow reports whether what comes next for a delivery are the rule's own actions, and not its
// handler.
func (l *Lane) actsNow(d *delivery.Delivery) bool {
	return l.opts.ActsItself && (l.dispatcher.to.Handler == nil || d.Answer.IsAcknowledged())
}

// maxReasons bounds the different failure reasons that a lane logs per minute.
const maxReasons = 4

// Lane makes the lane of a rule, before or during Run. resource is the resource of its matches.
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
		Size:  func(d delivery.Delivery) int64 { return size(&d) },
		Store: o.Store, Now: d.opts.Clock.Now,
		AfterFunc: d.afterFunc(),
		Ready:     func() { d.offer(l) }, Hungry: func() { d.hungry.offer(l) }, Crowded: l.noteCrowding,
	})
	return l
}

// Restore tells the lane that only the store holds count deliveries of one object. Their numbers
// lie between first and last, and they take the given bytes in all. The lane loads them when their
// turn comes, and delivers them in order, before later offers. It must be called before Run and
// before the lane is offered anything.
func (l *Lane) Restore(key delta.Key, count int, first, last uint64, bytes int64) {
	l.queue.Restore(key, count, first, last, bytes)
}

// Doubt tells the lane whether matches offered from now on may have been delivered already. After a
// restart, the API server may repeat changes that the program delivered but did not record before
// it was killed. While Doubt is on, the lane delivers a deletion and lets it cancel nothing out.
func (l *Lane) Doubt(on bool) { l.queue.Doubt(on) }

// Offer queues a match. It is called within the Journal's Begin and End, and never blocks.
func (l *Lane) Offer(m rule.Match) {
	d := delivery.Delivery{
		Delta: m.Delta, Payload: m.Payload, Undecided: m.Undecided, Version: m.Version,
	}
	if m.Version != "" && !l.admit(&d) {
		return
	}
	l.queue.Add(m.Delta.Key(), d)
}

// Redrive delivers a dead letter of this lane's rule once more, unchanged and ahead of what waits
// for its object. It has as many attempts as a new event. The caller must accept that later changes
// of the object may have been delivered by then. Redrive is called within the Journal's Begin and
// End. If ok is false, the lane is closed and the caller keeps the letter.
func (l *Lane) Redrive(letter delivery.Letter) (ok bool) {
	return l.queue.Redrive(letter.Delta.Key(), delivery.Delivery{
		Delta: letter.Delta, Payload: letter.Payload, Attempts: letter.Attempts,
	})
}

// Pause keeps the dispatcher from taking what waits until Resume. What is in flight goes on, and
// what waits is merged as usual.
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

// Hold keeps the dispatcher from taking what waits, independently of Pause, until it is called with
// false. It is for matches that cannot be decided yet.
func (l *Lane) Hold(on bool) {
	l.dispatcher.mu.Lock()
	l.isHeld = on
	l.dispatcher.mu.Unlock()
	l.dispatcher.offer(l)
}

// stands reports whether the lane is paused or held. The caller holds Dispatcher.mu.
func (l *Lane) stands() bool { return l.isPaused || l.isHeld }

// RetryNow ends the wait for a retry of the objects that chosen accepts, and returns how many.
// chosen is called with the queue locked.
func (l *Lane) RetryNow(chosen func(delta.Key) bool) (n int) { return l.queue.Hasten(chosen) }

// Delayed returns the objects that wait for a retry.
func (l *Lane) Delayed() []delta.Key { return l.queue.Delayed() }

// Holds reports whether deliveries of an object wait, or one is in flight.
func (l *Lane) Holds(key delta.Key) bool { return l.queue.Holds(key) }

// Stats returns what the lane holds.
func (l *Lane) Stats() queue.Stats { return l.queue.Stats() }

// Close forgets what waits, and the lane takes nothing more. What is in flight is neither
// interrupted nor repeated. All records stay, also those of deliveries in flight. So Close is
// called after Run has returned, or when the rule is gone.
func (l *Lane) Close() {
	l.queue.Close()
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	l.dispatcher.suspects.forget(l)
}
