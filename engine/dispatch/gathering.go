package dispatch

import (
	"sync"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/gather"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
)

// firstGathered is the lowest number of a record.
const firstGathered = 1 << 62

// gathering is the part of a lane in which changes wait for their group's event. A timer makes the
// events of the groups that are due: each group becomes one delivery, in the lane's queue. Package
// gather decides which changes and when; gathering adds the lock, the timer and the store.
type gathering struct {
	opts    Gathering
	env     *Options // of the lane's dispatcher
	out     outlet
	crowded func() // called when changes were merged or dropped because of a bound

	// mu is taken after the Journal's Begin, and before Dispatcher.mu. It guards what follows.
	mu        sync.Mutex
	groups    *gather.Groups
	isClosed  bool
	isDoubted bool // see queue.Doubt
	backlog   backlog
	inherits  bool // something is still to come from the lane before; see Succeed
	alarm     alarm
}

// outlet is a lane's queue, as its groups use it.
type outlet struct {
	*deliveries
	owned    *owned
	maxItems int
	maxBytes int64
}

// Resolve implements gather.Outlet.
func (o *outlet) Resolve(d *delivery.Delivery) (isOwn bool, wait time.Duration) {
	switch o.owned.resolve(d) {
	case ours:
		return true, 0
	case unknown:
		return false, maxAskAgain
	}
	return false, 0
}

// IsFull implements gather.Outlet: the queue has as much as it may have under Every.
func (o *outlet) IsFull() bool {
	s := o.Stats()
	return s.Waiting >= o.maxItems || s.Bytes > o.maxBytes
}

// records keeps the records of changes that wait in groups. It implements gather.Records.
type records struct {
	store queue.Store[delta.Key, delivery.Delivery]
}

// Put implements gather.Records.
func (r records) Put(c *gather.Change) {
	record := queue.Record[delivery.Delivery]{Value: c.Value, Since: c.Since, Sent: c.Sent}
	r.store.Put(c.N, c.Value.Delta.Key(), record)
}

// Delete implements gather.Records.
func (r records) Delete(c *gather.Change) { r.store.Delete(c.N, c.Value.Delta.Key()) }

// newGathering returns g with its groups, which merge with m. keepsEach is LaneOptions.Every.
func newGathering(g *gathering, m merging, keepsEach bool) *gathering {
	o := gather.Options{
		Wait: g.opts.Wait, Every: g.opts.Every,
		Bounds: gather.Bounds{
			MaxItems: g.out.maxItems, MaxBytes: g.out.maxBytes,
			MaxPerObject: queue.DefaultMaxPerKey, MaxGroups: g.opts.maxGroups,
		},
		KeepsEach: keepsEach, Merge: m.merge, Dropped: g.out.owned.dropped,
		Remember: g.opts.Remember, Forget: g.opts.Forget,
	}
	if g.opts.Store != nil {
		o.Records = records{g.opts.Store}
	}
	g.groups = gather.New(o, g.env.Clock.Now(), firstGathered-1)
	g.alarm = alarm{after: g.env.AfterFunc, ring: g.emit}
	return g
}

// offer gathers a match, and returns true. It is called within the Journal's Begin and End. After
// Ends it gathers only until older changes have come, to keep the order. isOver says that it
// gathers nothing because it is closed.
func (g *gathering) offer(id rule.Group, d delivery.Delivery) (ok, isOver bool) {
	g.mu.Lock()
	if g.isClosed || g.opts.Ends && !g.isIncomplete() {
		defer g.mu.Unlock()
		return false, g.isClosed
	}
	isCrowded := g.groups.Add(&gather.Change{
		Group: id, Value: d, Sent: g.isDoubted, Since: g.env.Clock.Now(),
	})
	g.arm()
	g.mu.Unlock()
	if isCrowded {
		g.crowded()
	}
	return true, false
}

// emit makes the events of the groups that are due, and sets the alarm for the next ones.
func (g *gathering) emit() {
	g.load()
	within(g.env.Journal, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.isClosed || g.isIncomplete() {
			return
		}
		g.alarm.isSet = false
		g.groups.Emit(g.env.Clock.Now(), &g.out)
		g.arm()
	})
}

// arm sets the alarm for the first group that is due. The caller holds mu.
func (g *gathering) arm() {
	if g.isClosed || g.inherits {
		return
	}
	now := g.env.Clock.Now()
	at, ok := g.groups.Due(now)
	if !g.backlog.isEmpty() {
		at, ok = now.Add(g.backlog.pause), true
	}
	if ok {
		g.alarm.set(at, now)
	}
}

// ended says that a delivery of an object has ended. It is called within the Journal's Begin and
// End.
func (g *gathering) ended(key delta.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isClosed && g.groups.Ended(key) {
		g.arm()
	}
}

// restore names the gathered changes that were recorded, and the last events of groups.
func (g *gathering) restore(recorded []Gathered, last map[rule.Group]gather.LastEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.env.Clock.Now()
	g.backlog.recorded, g.backlog.restored = recorded, now
	for _, c := range recorded {
		g.groups.Reserve(c.Last)
	}
	for id, event := range last {
		g.groups.Restore(id, event, now)
	}
	g.arm()
}

// isIncomplete reports whether older changes are still to come, from the store or the lane before.
// The caller holds mu.
func (g *gathering) isIncomplete() bool { return !g.backlog.isEmpty() || g.inherits }

// load loads what only the store has, once the caches allow it.
func (g *gathering) load() {
	g.mu.Lock()
	unloaded := g.backlog
	g.mu.Unlock()
	if unloaded.isEmpty() {
		return
	}
	loaded, err := unloaded.load(&g.opts)
	within(g.env.Journal, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.isClosed { // the successor loads it
			return
		}
		g.alarm.isSet = false
		g.backlog.postpone()
		if err == nil {
			g.backlog.recorded = nil
			g.adopt(loaded)
		}
		g.arm()
	})
}

// adopt puts older changes in front of those that have come since. After Ends it passes all of them
// on, in order, once they are complete. The caller holds mu.
func (g *gathering) adopt(older []*gather.Change) {
	g.groups.Adopt(older)
	if g.opts.Ends && !g.isIncomplete() {
		g.groups.Disband(rule.Group{}, &g.out)
	}
}

// stats returns what the groups hold.
func (g *gathering) stats() gather.Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups.Stats()
}

// holds returns how many changes of an object wait.
func (g *gathering) holds(key delta.Key) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups.Holds(key)
}

// look returns how many changes of an object wait, and when the first event of their groups comes.
func (g *gathering) look(key delta.Key) (n int, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups.Look(key)
}

// lastObject returns the object whose delivery was the last event of a group.
func (g *gathering) lastObject(of rule.Group) (key delta.Key, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups.LastObject(of)
}

// setDoubt does the work of Lane.Doubt. ok is false if g is closed.
func (g *gathering) setDoubt(on bool) (ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isDoubted = on
	return !g.isClosed
}

func (g *gathering) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isClosed = true
	g.alarm.stop()
}

// bequeath closes g. It returns what g has in memory, and hands over what only the store has. The
// heir makes no event until inherit is called. close is called before an offer can find g closed:
// it has offers go to the heir's lane. bequeath is called within the Journal's Begin and End.
func (g *gathering) bequeath(heir *gathering, succeed func()) *gather.Legacy {
	g.mu.Lock()
	defer g.mu.Unlock()
	heir.mu.Lock()
	defer heir.mu.Unlock()
	left := g.groups.Leave(g.env.Clock.Now())
	heir.groups.Continue(left)
	heir.isDoubted, heir.inherits = g.isDoubted, true
	heir.backlog.recorded, heir.backlog.restored = g.backlog.recorded, g.backlog.restored
	g.isClosed = true
	g.alarm.stop()
	succeed()
	return left
}

// inherit takes over what the gathering of the lane before, with these options, has left.
func (g *gathering) inherit(left *gather.Legacy, before *Gathering) {
	isSame := !before.Ends && !g.opts.Ends && before.By == g.opts.By
	changes := left.Changes()
	for _, c := range changes {
		switch {
		case g.opts.Ends:
			c.Group = rule.Group{}
		case !isSame:
			c.Group = g.opts.Of(c.Value.Delta)
		}
	}
	within(g.env.Journal, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		now := g.env.Clock.Now()
		for id, event := range left.Last {
			switch {
			case isSame:
				g.groups.Restore(id, event, now)
			case before.Forget != nil:
				before.Forget(id)
			}
		}
		g.inherits = false
		g.adopt(changes)
		g.arm()
	})
}
