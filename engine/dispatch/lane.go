package dispatch

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Lane is what one rule has for the handler.
type Lane struct {
	dispatcher *Dispatcher
	rule       string
	resource   handler.Resource
	remerge    func(delta.Delta) (json.RawMessage, error)
	decide     func(delta.Delta) (m rule.Match, ok bool)
	attach     func(delta.Delta) (map[string][]json.RawMessage, error)
	actions    func(context.Context, delta.Delta) ([]handler.Action, error)
	renew      func(delta.Delta) (m rule.Match, ok bool)
	secret     func() bool
	records    bool // there is a store
	acts       bool // see LaneOptions.Acts
	isPlain    bool // nothing is made just before an attempt
	queue      *queue.Queue[delta.Key, delivery]
	isReady    bool // is among Dispatcher.ready; guarded by Dispatcher.mu
	paused     bool // guarded by Dispatcher.mu
	held       bool // likewise

	isHungry     bool      // is among Dispatcher.hungry; guarded by its mu
	loadAfter    time.Time // not to be loaded for before; these two are the loader's
	loadFailures int

	owned

	failed                                atomic.Pointer[Failure] // the last
	failing, crowded, loading, unrecorded complaint
	lost                                  atomic.Uint64 // how much the bounds had cost when it was last looked at
}

// LaneOptions are what a rule says of its delivery.
type LaneOptions struct {
	// Every keeps each change, up to MaxItems and MaxBytes (0: the defaults of the queue package), instead of merging
	// what waits for one object.
	Every    bool
	MaxItems int
	MaxBytes int64
	// Remerge makes the payload of a delta that was merged, and whose kind or old state is not that of the newer one,
	// just before it is delivered, once. It is called from several goroutines. If it fails the newer payload stands.
	// nil means that the payload depends on the object alone, and the newer one is right.
	Remerge func(delta.Delta) (json.RawMessage, error)
	// Decide decides a match that is Undecided, just before it is delivered; if ok is false it is not. It is called from several
	// goroutines. It may be nil where nothing Undecided is offered or restored.
	Decide func(delta.Delta) (m rule.Match, ok bool)
	// Attach makes what is sent along with a change, just before each attempt at delivering it, so that it is never older than
	// the change, and nothing of it waits or is kept. It is called from several goroutines. If it fails the event becomes a
	// dead letter that says why. nil attaches nothing.
	Attach func(delta.Delta) (map[string][]json.RawMessage, error)
	// Actions makes the actions of a change, which take the place of a handler's answer: the handler is not called, and may be
	// nil. It is called just before each attempt, from several goroutines, and may take its time. Its error counts as if a
	// handler had answered with it: one that wraps handler.ErrReject makes a dead letter, any other has it called again.
	Actions func(ctx context.Context, d delta.Delta) ([]handler.Action, error)
	// Acts says that what the rule's events are answered with may change the cluster. Of its events, and of those of a lane with
	// Actions, the dispatcher's Actor is asked for a Delay.
	Acts bool
	// Own tells which changes the rule made itself, through the dispatcher's Actor: those are not delivered. nil delivers them.
	Own Own
	// Renew makes a delivery anew whose actions were refused again and again as being of an older state (see ErrStale), although
	// nothing newer of the rule's came: as the rule selects the same change with the object that the cache has now. If ok is
	// false it is not delivered any more, as the handler has seen it. It is called from several goroutines. nil repeats what
	// there is, more and more rarely.
	Renew func(delta.Delta) (m rule.Match, ok bool)
	// Secret tells whether no answer may be recorded, as it may have text of a Secret: after a crash the handler is asked again. It
	// is called from several goroutines. nil means that each may be.
	Secret func() bool
	// Store keeps a record of what waits, and, under Every, what there is no memory for: see Lane.Restore. nil means that
	// there is none.
	Store LaneStore
}

// delivery is a match on its way, with what became of it so far.
type delivery struct {
	match    rule.Match // with its Version as long as it is not known whose change it is
	answer   *answer    // what it was answered with and is to be carried out; nil if the handler is to be asked
	writes   uint64     // how many of the rule's writes had begun when it came, of which one may have made it
	stale    bool       // the payload is that of another delta
	weighed  bool       // Actor.Delay was asked
	redriven bool       // it is a dead letter that is delivered once more, and never merged with what waits behind it
	refusals int32      // how often in a row its actions were ErrStale
	attempts int        // how often this event was handed out
	failures int        // how often it was answered with an error

	// These outlive merging: a newer change of an object does not make the handler or the object any better.
	backoff int // retries of the object in a row
	losses  int // how often in a row the handler was lost with the object
}

// Lane makes the lane of a rule, before or during Run. resource is what its matches are of.
func (d *Dispatcher) Lane(rule string, resource handler.Resource, o LaneOptions) *Lane {
	l := &Lane{dispatcher: d, rule: rule, resource: resource, remerge: o.Remerge, attach: o.Attach, decide: o.Decide}
	l.actions, l.renew, l.secret, l.records, l.own = o.Actions, o.Renew, o.Secret, o.Store != nil, o.Own
	l.acts = o.Acts || o.Actions != nil
	l.isPlain = o.Attach == nil && !l.acts
	options := queue.Options[delta.Key, delivery]{
		Merge: l.merge,
		Every: o.Every, MaxItems: o.MaxItems, MaxBytes: o.MaxBytes,
		Size:   delivery.size,
		Ready:  func() { d.offer(l) },
		Hungry: func() { d.hungry.offer(l) },
	}
	if o.Store != nil {
		options.Store = records{o.Store, o.Remerge != nil}
	}
	l.queue = queue.New(options)
	return l
}

// Restore says what of one object is in the store alone: count deliveries, with numbers from first to last, of so many
// bytes. It is loaded when its turn comes, and delivered in order, before what comes later. Restore is called before the
// lane is offered anything, and before Run.
func (l *Lane) Restore(key delta.Key, count int, first, last uint64, bytes int64) {
	l.queue.Restore(key, count, first, last, bytes)
}

// Doubt says whether what is offered from now on may have been delivered already: after a restart, what the API server tells
// once more, because the program was killed before it was recorded. A deletion of it
// is delivered, and cancels nothing out.
func (l *Lane) Doubt(on bool) { l.queue.Doubt(on) }

// Offer hands over a match, within the Journal's Begin and End. It never blocks.
func (l *Lane) Offer(m rule.Match) {
	d := delivery{match: m}
	if m.Version != "" && !l.admit(&d) {
		return
	}
	l.queue.Add(m.Delta.Key(), d)
	l.logCrowding()
}

// Redrive delivers a dead letter of this lane's rule once more: as it was, before what waits for its object, and with as
// many attempts as if it were new. Later changes of the object may have been delivered by then; it is up to who asks. It
// is called within the Journal's Begin and End. ok is false if the lane is closed: the letter is not the lane's then.
func (l *Lane) Redrive(letter Letter) (ok bool) {
	return l.queue.Redrive(letter.Match.Delta.Key(), delivery{match: letter.Match, attempts: letter.Attempts, redriven: true})
}

// Pause keeps what waits from being delivered until Resume. What is in flight goes on; what waits is merged as ever.
func (l *Lane) Pause() {
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	l.paused = true
}

// Resume ends a Pause.
func (l *Lane) Resume() {
	l.dispatcher.mu.Lock()
	l.paused = false
	l.dispatcher.mu.Unlock()
	l.dispatcher.offer(l)
}

// Paused tells whether the lane is paused.
func (l *Lane) Paused() bool {
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	return l.paused
}

// Hold keeps what waits from being delivered, as Pause does, until it is called with false: for who offers what cannot be
// decided yet.
func (l *Lane) Hold(on bool) {
	l.dispatcher.mu.Lock()
	l.held = on
	l.dispatcher.mu.Unlock()
	l.dispatcher.offer(l)
}

// stands, with Dispatcher.mu, tells whether nothing is delivered.
func (l *Lane) stands() bool { return l.paused || l.held }

// Stats tells what waits.
func (l *Lane) Stats() queue.Stats { return l.queue.Stats() }

// Close forgets what waits and takes nothing more. What is in flight is not interrupted, but neither repeated. Records stay:
// also of what is in flight, so that Close comes after Run has returned, or the rule is gone.
func (l *Lane) Close() {
	l.queue.Close()
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	l.dispatcher.suspects.forget(l)
}

// merge merges as delta.Merge says, and keeps the account of attempts. What is decided and what is not stay apart, as it is not
// known whether there will be anything to merge; but what was refused because of what came after it takes that in, as Renew would.
func (l *Lane) merge(waiting, newer delivery, sent bool) (merged delivery, keep, ok bool) {
	if waiting.match.Version != "" || newer.match.Version != "" {
		return l.mergeUnsettled(waiting, newer, sent)
	}
	return l.mergeSettled(waiting, newer, sent)
}

func (l *Lane) mergeSettled(waiting, newer delivery, sent bool) (merged delivery, keep, ok bool) {
	takesIn := waiting.refusals > 0 && !waiting.match.Undecided && newer.match.Undecided
	if waiting.match.Undecided != newer.match.Undecided && !takesIn {
		return delivery{}, false, false
	}
	if takesIn {
		newer.match.Payload, newer.stale = waiting.match.Payload, true
		newer.match.Undecided = l.actions != nil // what a rule does itself is decided anew
	}
	d, keep, ok := delta.Merge(waiting.match.Delta, newer.match.Delta, sent)
	if !ok || !keep {
		return delivery{}, keep, ok
	}
	merged = delivery{
		match:   rule.Match{Delta: d, Payload: newer.match.Payload, Undecided: newer.match.Undecided},
		backoff: waiting.backoff,
		losses:  waiting.losses,
	}
	ofNewer := d.Type == newer.match.Delta.Type && d.Old == newer.match.Delta.Old
	merged.stale = l.remerge != nil && !newer.match.Undecided && (newer.stale || !ofNewer)
	if sameEvent(d, waiting.match.Delta) {
		merged.attempts, merged.failures, merged.refusals = waiting.attempts, waiting.failures, waiting.refusals
		merged.answer, merged.weighed = waiting.answer, waiting.weighed
	} else if takesIn {
		merged.refusals = waiting.refusals // more of them may wait
	}
	return merged, true, true
}

// isPlain tells whether nothing of the delivery is to be made before it is handed over.
func (d *delivery) isPlain() bool {
	return !d.stale && !d.match.Undecided && d.answer == nil && d.refusals == 0
}

// sameEvent tells whether two deltas have the same ID.
func sameEvent(a, b delta.Delta) bool {
	return a.Type == b.Type && a.Round == b.Round &&
		a.Object.UID() == b.Object.UID() && a.Object.ResourceVersion() == b.Object.ResourceVersion()
}

// size is roughly what a delivery holds on to. Objects that it shares with others count for each.
func (d delivery) size() int64 {
	const overhead = 512 // the delivery itself and its place in a queue
	size := overhead + d.match.Delta.Object.Size() + len(d.match.Payload) + d.answer.size()
	if old := d.match.Delta.Old; old != nil {
		size += old.Size()
	}
	return int64(size)
}
