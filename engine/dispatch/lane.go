package dispatch

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/gather"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// Lane holds the deliveries of one rule for the handler. It is safe for concurrent use.
type Lane struct {
	dispatcher *Dispatcher
	naming     naming
	// its lock: after Dispatcher.mu, before ownCounts.mu
	queue *deliveries
	// gathered is nil unless changes come in groups, or did in the run before; StopGathering sets
	// it
	gathered atomic.Pointer[gathering]

	traits  traits
	owned   *owned
	merging merging
	turn    turn
	loading loading
	reports *reports
	// shared is what all lanes of the queue have in common.
	shared *shared

	opts LaneOptions // most of it is seldom read, so it is not between the others
}

// turn says whether the dispatcher takes from a lane. Dispatcher.mu guards it.
type turn struct {
	isReady     bool // is in Dispatcher.ready
	isHeld      bool
	isSucceeded bool // another lane has taken its place
	resting     int  // its attempts that have left their places to others
}

// shared is what a lane shares with its successors.
type shared struct {
	// isPaused is shared because a pause holds for whichever lane has the rule.
	isPaused atomic.Bool
	// present is the lane that has the rule now: see Succeed. It is shared, so that a stale
	// reference to an old lane does not keep intermediate ones alive.
	present atomic.Pointer[Lane]
	owned   ownCounts
	acted   tally
	ended   atomic.Uint64 // deliveries that are not tried again
}

// tally counts for how many events the rule's own actions were performed, and for how many there
// were none.
type tally struct{ acted, idle atomic.Uint64 }

func (t *tally) add(did trail.Verdict) {
	switch did {
	case trail.Acted, trail.Pruned, trail.Unchanged, trail.Vanished:
		t.acted.Add(1)
	case trail.Idle:
		t.idle.Add(1)
	}
}

// job is a delivery that was taken from its lane.
type job struct {
	lane *Lane
	item item
}

// Lane makes the lane of a rule, before or during Run. resource is the resource of its matches.
func (d *Dispatcher) Lane(rule string, resource handler.Resource, o LaneOptions) *Lane {
	l := d.newLane(naming{rule: rule, resource: resource}, o, new(shared))
	l.queue = queue.New(l.queueOptions())
	if o.Gathering != nil {
		l.beginGathering(*o.Gathering)
	}
	l.shared.present.Store(l)
	return l
}

// newLane makes a lane without a queue.
func (d *Dispatcher) newLane(n naming, o LaneOptions, s *shared) *Lane {
	if o.Actor == nil {
		o.Actor = d.opts.Actor
	}
	l := &Lane{
		dispatcher: d, naming: n, opts: o, shared: s,
		traits: traitsOf(&o, d.to.Handler != nil),
		owned: &owned{
			own: o.Own, matched: o.Matched, changes: o.Changes, clock: d.opts.Clock,
			counts: &s.owned,
		},
		reports: newReports(n.rule, d.log, d.opts.Clock),
	}
	l.merging = merging{l.traits, l.owned}
	return l
}

// beginGathering makes the part of the lane in which changes wait for their group's event. The lane
// must have its queue.
func (l *Lane) beginGathering(o Gathering) {
	d := l.dispatcher
	l.gathered.Store(newGathering(&gathering{
		opts: o, env: &d.opts,
		out: outlet{
			deliveries: l.queue, owned: l.owned,
			maxItems: cmp.Or(l.opts.MaxItems, queue.DefaultMaxItems),
			maxBytes: cmp.Or(l.opts.MaxBytes, queue.DefaultMaxBytes),
		},
		crowded: func() { d.noteCrowding(l) },
		backlog: backlog{failed: l.reports.reportLoading},
	}, l.merging, l.opts.Every))
}

func (l *Lane) queueOptions() queue.Options[delta.Key, delivery.Delivery] {
	d, o := l.dispatcher, &l.opts
	return queue.Options[delta.Key, delivery.Delivery]{
		Merge: l.merging.mergeQueued, Renews: isAnother,
		Every: o.Every, MaxItems: o.MaxItems, MaxBytes: o.MaxBytes, MaxDelay: maxDelay,
		Size:  func(d delivery.Delivery) int64 { return delivery.Size(&d) },
		Store: o.Store, Now: d.now,
		AfterFunc: d.opts.AfterFunc,
		Ready:     func() { d.offer(l) }, Hungry: func() { d.loadSoon(l) },
		Crowded: func() { d.noteCrowding(l) },
	}
}

// gathering returns the part in which changes wait for their group's event, or nil.
func (l *Lane) gathering() *gathering { return l.gathered.Load() }

// StopGathering sets where gathered changes are recorded, for the lane of a rule that has no groups
// any more, as o.Ends says. The lane delivers them one by one. It must be called before
// RestoreGathered.
func (l *Lane) StopGathering(o Gathering) { l.beginGathering(o) }

// RestoreGathered restores the gathered changes that were recorded, and the last events of groups.
// It must be called before the lane is offered anything, and after Restore.
func (l *Lane) RestoreGathered(changes []Gathered, last map[rule.Group]gather.LastEvent) {
	l.gathering().restore(changes, last)
}

// Restore notes that only the store holds count deliveries of one object. Their numbers lie between
// first and last, and they take the given bytes in all. The lane loads them when their turn comes,
// and delivers them in order, before later offers. It must be called before Run and before the lane
// is offered anything.
func (l *Lane) Restore(key delta.Key, count int, first, last uint64, bytes int64) {
	l.queue.Restore(key, count, first, last, bytes)
}

// Renamed sets the names that the rule had when deliveries that wait were made, the oldest first.
// These deliveries keep their ids. It must be called before the lane is offered anything.
func (l *Lane) Renamed(former []delivery.Former) { l.naming.former = former }

// Rename notes that the lane's rule had another name until now. The lane's deliveries keep their
// ids. It must be called before the lane is offered anything.
func (l *Lane) Rename(from string) { l.naming.rename(from, l.queue.Last()) }

// Former returns the names that ids of the lane's deliveries may begin with, besides the rule's
// own.
func (l *Lane) Former() []delivery.Former { return l.naming.former }

// Doubt sets whether matches offered from now on may have been delivered already. After a restart,
// the API server may repeat changes that the program delivered but did not record before it was
// killed. While Doubt is on, the lane delivers a deletion and lets it cancel nothing out.
func (l *Lane) Doubt(on bool) {
	l = l.newest()
	l.queue.Doubt(on)
	for l = l.newest(); l.traits.gathers; l = l.newest() {
		if l.gathering().setDoubt(on) || l.newest() == l {
			return
		}
	}
}

// Offer queues a match. It is called within the Journal's Begin and End, and never blocks. isOwn
// says that it does not queue it, because the rule made the change itself.
func (l *Lane) Offer(m rule.Match) (isOwn bool) {
	d := delivery.Delivery{
		Delta: m.Delta, Payload: m.Payload, Undecided: m.Undecided, Version: m.Version,
	}
	if !l.owned.admit(&d, l.waiting) {
		return true
	}
	for l = l.newest(); l.gathering() != nil; l = l.newest() {
		if ok, isOver := l.gathering().offer(m.Group, d); ok {
			return false
		} else if !isOver || l.newest() == l {
			break
		}
	}
	l.queue.Add(m.Delta.Key(), d)
	return false
}

// OfferActions queues the rule's own actions for a change that its handler, if it has one, must not
// receive. It is called within the Journal's Begin and End, and never blocks.
func (l *Lane) OfferActions(d delta.Delta) {
	l.newest().queue.Add(d.Key(), delivery.Delivery{Delta: d, Answer: delivery.Acknowledged})
}

// Owns returns who made the change of a match that is about to be offered: the rule itself, or
// perhaps the rule, which turns out later.
func (l *Lane) Owns(m rule.Match) (isOwn, mayBe bool) {
	who := l.owned.ask(&delivery.Delivery{Delta: m.Delta, Version: m.Version})
	return who == ours, who == unknown
}

// OwnChanges returns how many changes the lane has dropped because the rule made them.
func (l *Lane) OwnChanges() uint64 { return l.shared.owned.dropped.Load() }

// Acted returns for how many events the rule has performed actions of its own, and for how many it
// had none to perform.
func (l *Lane) Acted() (acted, idle uint64) {
	return l.shared.acted.acted.Load(), l.shared.acted.idle.Load()
}

// Ended returns how many deliveries have ended in any way, so that they are not tried again. While one
// has not, the lane Holds its object.
func (l *Lane) Ended() uint64 { return l.shared.ended.Load() }

// count counts an event that has just been decided, and reports whether it goes on. m is nil if the
// rule counts nothing. It is called within the Journal's Begin and End.
func (l *Lane) count(d delta.Delta, m *count.Hit) (goesOn bool) {
	return m == nil || l.opts.Count(d, *m)
}

// newest returns the lane that has taken the place of l, or l.
func (l *Lane) newest() *Lane { return l.shared.present.Load() }

// isConfidential reports whether answers and reasons may quote a Secret.
func (l *Lane) isConfidential() bool {
	return l.opts.Preparer != nil && l.opts.Preparer.IsConfidential()
}

// event returns the event of a delivery as the handler sees it.
func (l *Lane) event(i *item) handler.Event {
	ev := l.naming.event(i, l.traits.isGroup(&i.Value))
	ev.Epoch = l.dispatcher.opts.Epoch // not that of its items
	return ev
}

// ending is called before a delivery of l is done, outside of the Journal's Begin and End.
func ending(l *Lane, key delta.Key) {
	if l.opts.Account != nil {
		l.opts.Account.Ending(key)
	}
}

// done ends the delivery in flight of an object. It is called within the Journal's Begin and End.
func (l *Lane) done(key delta.Key) {
	if l.opts.Account != nil {
		l.opts.Account.End(key)
	}
	l.queue.Done(key)
	if l = l.newest(); l.traits.gathers {
		l.gathering().ended(key)
	}
}

// waiting returns how many changes of an object wait.
func (l *Lane) waiting(key delta.Key) int {
	here, away := l.queue.Waiting(key)
	if l.traits.gathers {
		return here + away + l.gathering().holds(key)
	}
	return here + away
}

// Redrive delivers a dead letter of this lane's rule once more, unchanged and ahead of the
// deliveries of its object that wait. It has as many attempts as a new event. The caller must
// accept that later changes of the object may have been delivered by then. Redrive is called within
// the Journal's Begin and End. If ok is false, the lane is closed and the caller keeps the letter.
func (l *Lane) Redrive(letter delivery.Letter) (ok bool) {
	return l.queue.Redrive(letter.Delta.Key(), delivery.Delivery{
		Delta: letter.Delta, Payload: letter.Payload, Attempts: letter.Attempts,
		Items: letter.Items, Rule: delivery.NameIn(letter.ID),
	}, letter.Since)
}

// Pause keeps the dispatcher from taking what waits until Resume. What is in flight goes on, but a
// rule's own actions only to the end of the requests under way. What waits is merged as usual. If
// another lane takes the place of l, before or meanwhile, Pause pauses that one.
func (l *Lane) Pause() {
	l.shared.isPaused.Store(true)
	for _, of := range []*Lane{l, l.newest()} {
		of.dispatcher.InFlight() // has waited for its lock: a take that had begun is over
	}
}

// Resume ends a Pause, also that of a lane that has taken the place of l.
func (l *Lane) Resume() {
	l.shared.isPaused.Store(false)
	l = l.newest() // a lane that comes later offers itself, and is not paused
	l.dispatcher.offer(l)
}

// Paused reports whether the lane is paused.
func (l *Lane) Paused() bool { return l.shared.isPaused.Load() }

// Hold keeps the dispatcher from taking what waits, independently of Pause, until it is called with
// false. It is for matches that cannot be decided yet.
func (l *Lane) Hold(on bool) {
	l.dispatcher.hold(l, on)
}

// isStopped reports whether the lane is paused, held or succeeded, or leaves its places to others.
// The caller holds Dispatcher.mu.
func (l *Lane) isStopped() bool {
	return l.shared.isPaused.Load() || l.turn.isHeld || l.turn.isSucceeded || l.turn.resting > 0
}

// RetryNow ends the wait for a retry of the objects that chosen accepts, and returns how many.
// chosen may be called with the queue locked, and more than once.
func (l *Lane) RetryNow(chosen func(delta.Key) bool) (n int) {
	if account := l.opts.Account; account != nil {
		for _, key := range l.queue.Delayed() {
			if chosen(key) {
				account.Hasten(key)
			}
		}
	}
	return l.queue.Hasten(chosen)
}

// Delayed returns the objects that wait for a retry, or whose first attempt was postponed.
func (l *Lane) Delayed() []delta.Key { return l.queue.Delayed() }

// Holds reports whether deliveries of an object wait, or one is in flight. If another lane has
// taken the place of l, it answers for that.
func (l *Lane) Holds(key delta.Key) bool {
	l = l.newest()
	return l.queue.Holds(key) || l.traits.gathers && l.gathering().holds(key) > 0
}

// Stats returns what the lane holds, apart from gathered changes.
func (l *Lane) Stats() queue.Stats {
	s := l.queue.Stats()
	if l.gathering() != nil {
		s.Shortened += l.gathering().stats().Lost
	}
	return s
}

// Gathered returns how many changes wait for the event of their group, and when the first event is
// due: the zero time if none is.
func (l *Lane) Gathered() (n int, next time.Time) {
	if l.gathering() != nil {
		s := l.gathering().stats()
		return s.Items, s.Next
	}
	return 0, time.Time{}
}

// Close forgets what waits, and the lane takes nothing more. What is in flight is neither
// interrupted nor repeated. All records stay, also those of deliveries in flight. So Close is
// called after Run has returned, or when the rule is gone.
func (l *Lane) Close() {
	if l.gathering() != nil {
		l.gathering().close()
	}
	l.queue.Close()
	l.dispatcher.forget(l)
}

// LastFailure returns the last failure. If ok is false, there was none.
func (l *Lane) LastFailure() (f Failure, ok bool) {
	if last := l.reports.failed.Load(); last != nil {
		return *last, true
	}
	return Failure{}, false
}
