package dispatch

import (
	"cmp"
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// Gathering are the LaneOptions of a rule whose changes come in groups. What is gathered has
// records of its own, apart from those of the lane's queue.
type Gathering struct {
	// By is the text that defines the groups. If it is the same for two Gatherings, their Of
	// returns the same.
	By string
	// Wait is the time from the first change of a group to its event, and Every the least time
	// between two events of a group.
	Wait, Every time.Duration
	// Of returns the group of a change that was recorded. It is called in a goroutine of its own.
	Of func(delta.Delta) rule.Group
	// Store records what is gathered. nil records nothing.
	Store queue.Store[delta.Key, delivery.Delivery]
	// Told records the last event of a group, and Forget drops that record. They are called between
	// the Journal's Begin and End. nil records nothing.
	Told   func(rule.Group, Told)
	Forget func(rule.Group)
	// Ends means that the rule no longer has groups: changes in the Store come as single events.
	// Changes that are offered before these are loaded come after them, and nothing else is
	// gathered.
	Ends bool
}

// Told says when the last event of a group was made.
type Told struct {
	At  time.Time
	Key delta.Key // of the delivery
}

// Gathered is what was recorded of a group's changes: see Lane.RestoreGathered.
type Gathered struct {
	Key         delta.Key
	First, Last uint64 // numbers
}

// The bounds of one event.
const (
	maxItems      = 1000
	maxItemsBytes = 4 << 20
)

const (
	// maxTold bounds how many events of groups are made at once, before other changes are let in.
	maxTold = 100
	// busyFor is the time after which a group looks again whether its last delivery has ended, in
	// case ended was not called.
	busyFor = 30 * time.Second
	// The time between two attempts at loading what was gathered doubles from firstLoadPause on.
	firstLoadPause = 200 * time.Millisecond
	lastLoadPause  = 5 * time.Second
	// firstGathered is the lowest number of a record.
	firstGathered = 1 << 62
)

// gathering is the part of a lane in which changes wait for their group's event. A timer makes the
// events of the groups that are due: each group becomes one delivery, in the lane's queue.
//
// A group has another event only once its last delivery has ended. Meanwhile it gathers on, so that
// it never has more than one delivery in the queue, and its events are in order.
//
// It has many fields because it finds groups and changes in several ways: by time, by group, by
// object, and by the delivery that they wait for.
type gathering struct {
	lane   *Lane
	opts   Gathering
	origin time.Time // the zero of times in due; it has a monotonic reading

	// mu is taken after the Journal's Begin, and before Dispatcher.mu. It guards what follows.
	mu        sync.Mutex
	closed    bool
	doubt     bool // see queue.Doubt
	groups    map[rule.Group]*group
	due       timing.Waiting          // groups with changes, by the bytes of their ids
	idle      timing.Waiting          // the others, which are forgotten when a next event might come
	last      map[place]*gathered     // the newest change of an object in a group
	held      map[delta.Key]waitingOf // the changes of an object that wait, in all groups
	busy      map[delta.Key][]string  // groups that wait for the end of a delivery
	number    uint64
	items     int
	bytes     int64
	lost      uint64 // changes that were merged or dropped because of a bound
	maxGroups int
	cut       uint64 // groups that were forgotten too early because of a bound
	resting   int64  // until then no event is made, as in due: see rest
	timer     queue.Timer
	armed     int64 // when the timer fires; valid if isArmed
	isArmed   bool
	// unloaded is what only the store has. Until it is loaded, no event is made.
	unloaded []Gathered
	restored time.Time // when restore was called
	// loadPause is the time until the next attempt at loading; 0 before the first.
	loadPause time.Duration
	inherits  bool // something is still to come from the lane before; see Succeed
}

// group is what one group has gathered, and when its last event was made.
type group struct {
	id      rule.Group
	changes list.List // of *gathered; the newest last
	since   time.Time // when the first of them came
	wasTold bool
	told    int64 // as in gathering.due
	key     delta.Key
	isBusy  bool // is in gathering.busy
}

// gathered is one change that waits.
type gathered struct {
	group rule.Group
	key   delta.Key
	value delivery.Delivery
	n     uint64 // of its record
	size  int64
	since time.Time
	sent  bool
	at    *list.Element // in its group
	// older and newer are the changes of the object that came before and after, in any group.
	older, newer *gathered
}

// waitingOf are the changes of one object that wait.
type waitingOf struct {
	oldest, newest *gathered
	n              int
}

// place is an object in a group.
type place struct {
	group rule.Group
	key   delta.Key
}

func newGathering(l *Lane, o Gathering) *gathering {
	return &gathering{
		lane: l, opts: o, origin: l.dispatcher.opts.Clock.Now(), number: firstGathered - 1,
		groups: make(map[rule.Group]*group), last: make(map[place]*gathered),
		held: make(map[delta.Key]waitingOf), busy: make(map[delta.Key][]string),
		maxGroups: defaultMaxGroups,
	}
}

// now returns the time as in due.
func (g *gathering) now() int64 {
	return g.lane.dispatcher.opts.Clock.Now().Sub(g.origin).Milliseconds()
}

// millis returns d in milliseconds, rounded up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// offer gathers a match, and returns true. It is called within the Journal's Begin and End. After
// Ends it gathers only until older changes have come, to keep the order. isOver says that it gathers
// nothing because it is closed.
func (g *gathering) offer(id rule.Group, d delivery.Delivery) (ok, isOver bool) {
	g.mu.Lock()
	if g.closed || g.opts.Ends && len(g.unloaded) == 0 && !g.inherits {
		defer g.mu.Unlock()
		return false, g.closed
	}
	crowded := g.add(&gathered{
		group: id, key: d.Delta.Key(), value: d, sent: g.doubt,
		since: g.lane.dispatcher.opts.Clock.Now(),
	})
	if g.forgetSome() {
		crowded = true
	}
	g.arm()
	g.mu.Unlock()
	if crowded {
		g.lane.noteCrowding()
	}
	return true, false
}

// add adds a change behind the others of its group, or merges it with the last one of its object.
// The caller holds mu.
func (g *gathering) add(c *gathered) (crowded bool) {
	c.size = size(&c.value)
	of := g.groups[c.group]
	if of == nil {
		of = &group{id: c.group}
		g.groups[c.group] = of
	}
	o := &g.lane.opts
	isFull := g.isFull(1, c.size)
	if last := g.last[place{c.group, c.key}]; last != nil && (isFull || !o.Every) {
		if merged, keep, ok := g.lane.merge(last.value, c.value, last.sent); ok {
			g.unrecord(c)
			if isFull {
				g.lost++
			}
			if !keep {
				g.remove(of, last)
				g.schedule(of)
				return isFull
			}
			g.bytes -= last.size
			last.value, last.size = merged, size(&merged)
			g.bytes += last.size
			of.changes.MoveToBack(last.at)
			g.unrecord(last) // a restart puts changes in the order of their numbers
			g.number++
			last.n = g.number
			g.record(last)
			return isFull
		}
	}
	if isFull {
		isLeft := g.makeRoom(c)
		g.groups[c.group] = of // it may have become empty meanwhile
		if !isLeft {
			g.schedule(of)
			return true
		}
	}
	if c.n == 0 {
		g.number++
		c.n = g.number
		g.record(c)
	}
	c.at = of.changes.PushBack(c)
	g.last[place{c.group, c.key}] = c
	g.link(c)
	g.items++
	g.bytes += c.size
	if of.changes.Len() == 1 || c.since.Before(of.since) {
		of.since = c.since
		g.schedule(of)
	}
	return isFull
}

// remove takes a change out of its group, and drops its record. The caller holds mu.
func (g *gathering) remove(of *group, c *gathered) {
	g.detach(of, c)
	g.unrecord(c)
}

// detach takes a change out of its group. The caller holds mu.
func (g *gathering) detach(of *group, c *gathered) {
	of.changes.Remove(c.at)
	if p := (place{c.group, c.key}); g.last[p] == c {
		delete(g.last, p)
	}
	g.unlink(c)
	g.items--
	g.bytes -= c.size
}

func (g *gathering) record(c *gathered) {
	if g.opts.Store != nil {
		r := queue.Record[delivery.Delivery]{Value: c.value, Since: c.since, Sent: c.sent}
		g.opts.Store.Put(c.n, c.key, r)
	}
}

func (g *gathering) unrecord(c *gathered) {
	if g.opts.Store != nil && c.n != 0 {
		g.opts.Store.Delete(c.n, c.key)
	}
}

// schedule sets when a group's event is made, or when the group is forgotten if it has gathered
// nothing. The caller holds mu.
func (g *gathering) schedule(of *group) {
	id, next := string(of.id[:]), of.told+millis(g.opts.Every)
	if of.changes.Len() == 0 {
		g.due.Delete(id)
		if !of.wasTold {
			delete(g.groups, of.id)
			return
		}
		g.idle.Put(id, next)
		return
	}
	g.idle.Delete(id)
	at := millis(of.since.Sub(g.origin) + g.opts.Wait)
	if of.wasTold {
		at = max(at, next)
	}
	g.due.Put(id, at)
}

// tell makes the events of the groups that are due, and sets the timer for the next ones.
func (g *gathering) tell() {
	if g.load(); g.isIncomplete() {
		return
	}
	g.lane.dispatcher.journal(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.closed || g.inherits {
			return
		}
		g.isArmed = false
		now := g.now()
		g.tellSome(now)
		g.forgetSome()
		for range maxTold {
			id, at, ok := g.idle.First()
			if !ok || at > now {
				break
			}
			g.forget(rule.Group([]byte(id)), now)
		}
		g.arm()
	})
}

// waits reports whether a group's last delivery has not ended. Then ended schedules the group once
// it has. The caller holds mu.
func (g *gathering) waits(of *group) bool {
	if !of.wasTold || !g.lane.queue.Holds(of.key) {
		return false
	}
	if !of.isBusy {
		of.isBusy = true
		g.busy[of.key] = append(g.busy[of.key], string(of.id[:]))
	}
	return true
}

// forget forgets a group that has nothing, unless it waits for its last delivery. The caller holds
// mu.
func (g *gathering) forget(id rule.Group, now int64) {
	if g.waits(g.groups[id]) {
		g.idle.Put(string(id[:]), now+millis(busyFor))
		return
	}
	g.drop(id)
}

// drop forgets a group that has nothing. The caller holds mu.
func (g *gathering) drop(id rule.Group) {
	g.idle.Delete(string(id[:]))
	delete(g.groups, id)
	if g.opts.Forget != nil {
		g.opts.Forget(id)
	}
}

// tellGroup makes one delivery of the gathered changes of a group, and reports whether the group
// has less now. The caller holds mu.
func (g *gathering) tellGroup(of *group, now int64) bool {
	id := string(of.id[:])
	if g.waits(of) {
		g.due.Put(id, now+millis(busyFor))
		return false
	}
	taken, isUnsettled := g.take(of)
	switch {
	case isUnsettled:
		g.due.Put(id, now+millis(maxSettle))
		return false
	case len(taken) == 0:
		g.schedule(of)
		return true
	}
	newest := taken[len(taken)-1]
	d, since := newest.value, newest.since
	for _, c := range taken {
		g.remove(of, c)
		since = timing.Earlier(since, c.since)
		if c != newest {
			d.Items = append(d.Items, delivery.Item{
				Delta: c.value.Delta, Payload: c.value.Payload,
				Stale: c.value.Stale, Undecided: c.value.Undecided,
			})
		}
	}
	g.lane.queue.AddSince(newest.key, d, since)
	of.wasTold, of.told, of.key = true, now, newest.key
	if g.opts.Told != nil {
		g.opts.Told(of.id, Told{At: g.lane.dispatcher.opts.Clock.Now(), Key: newest.key})
	}
	if first := of.changes.Front(); first != nil {
		of.since = first.Value.(*gathered).since
	}
	g.schedule(of)
	return true
}

// take returns what the next event of a group has, oldest first. It drops changes that the rule made
// itself. isUnsettled says that nobody knows yet who made one of them. The caller holds mu.
func (g *gathering) take(of *group) (taken []*gathered, isUnsettled bool) {
	bytes := int64(0)
	for e := of.changes.Front(); e != nil && len(taken) < maxItems; {
		c := e.Value.(*gathered)
		e = e.Next()
		if c.value.Version != "" {
			switch g.lane.whose(&c.value) {
			case ours:
				g.remove(of, c)
				g.lane.vanished(&c.value)
				continue
			case unsettled:
				return nil, true
			}
			g.lane.foreign(&c.value)
			g.lane.settled(c.key, 1)
		}
		if bytes += sent(&c.value); bytes > maxItemsBytes && len(taken) > 0 {
			break
		}
		taken = append(taken, c)
	}
	return taken, false
}

// sent returns about how many bytes a handler gets of a delivery.
func sent(d *delivery.Delivery) int64 {
	const overhead = 512
	size := overhead + len(d.Payload)
	if d.Payload == nil {
		size += d.Delta.Object.Length()
		if d.Delta.Old != nil {
			size += d.Delta.Old.Length()
		}
	}
	return int64(size)
}

// ended says that a delivery of an object has ended. It is called within the Journal's Begin and
// End.
func (g *gathering) ended(key delta.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := g.busy[key]
	if len(waiting) == 0 || g.closed {
		return
	}
	delete(g.busy, key)
	g.resting = 0
	for _, id := range waiting {
		if of := g.groups[rule.Group([]byte(id))]; of != nil {
			of.isBusy = false
			g.schedule(of)
		}
	}
	g.arm()
}

// arm sets the timer for the first group that is due. The caller holds mu.
func (g *gathering) arm() {
	_, at, ok := g.due.First()
	if _, end, isIdle := g.idle.First(); isIdle && (!ok || end < at) {
		at, ok = end, true
	}
	if g.isFull(0, 0) {
		at = min(at, g.now()) // early: see gather_bounds.go
	}
	at = max(at, g.resting)
	if len(g.unloaded) > 0 {
		at, ok = g.now()+millis(g.loadPause), true
	}
	if !ok || g.closed || g.inherits || g.isArmed && g.armed <= at {
		return
	}
	wait := time.Duration(max(0, at-g.now())) * time.Millisecond
	g.armed, g.isArmed = at, true
	if g.timer != nil {
		g.timer.Reset(wait)
		return
	}
	g.timer = g.lane.dispatcher.opts.AfterFunc(wait, g.tell)
}

// restore names the gathered changes that were recorded, and the last events of groups.
func (g *gathering) restore(changes []Gathered, told map[rule.Group]Told) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unloaded, g.restored = changes, g.lane.dispatcher.opts.Clock.Now()
	for _, c := range changes {
		g.number = max(g.number, c.Last)
	}
	for id, t := range told {
		g.wasTold(id, t)
	}
	g.arm()
}

// wasTold notes when the last event of a group was made. The caller holds mu.
func (g *gathering) wasTold(id rule.Group, t Told) {
	// a time in the future counts as now
	since := max(0, g.lane.dispatcher.opts.Clock.Now().Round(0).Sub(t.At.Round(0)))
	of := g.groups[id]
	if of == nil {
		of = &group{id: id}
		g.groups[id] = of
	}
	of.wasTold, of.key, of.told = true, t.Key, g.now()-since.Milliseconds()
	g.schedule(of)
}

// isIncomplete reports whether older changes are still to come, from the store or the lane before.
func (g *gathering) isIncomplete() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.unloaded) > 0 || g.inherits
}

// load loads what only the store has, once the caches allow it.
func (g *gathering) load() {
	g.mu.Lock()
	unloaded := g.unloaded
	g.mu.Unlock()
	if len(unloaded) == 0 {
		return
	}
	var loaded []*gathered
	var failure error
	for _, of := range unloaded {
		found, err := g.read(of)
		if failure = err; err != nil {
			break
		}
		loaded = append(loaded, found...)
	}
	if failure != nil && !errors.Is(failure, ErrNotYet) {
		g.lane.reportLoading(failure)
	}
	g.lane.dispatcher.journal(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.closed { // the successor loads it
			return
		}
		g.isArmed = false
		g.loadPause = min(max(firstLoadPause, 2*g.loadPause), lastLoadPause)
		if failure == nil {
			g.unloaded = nil
			g.adopt(loaded)
		}
		g.arm()
	})
}

// read reads what was gathered of one object.
func (g *gathering) read(of Gathered) (changes []*gathered, err error) {
	for after := of.First - 1; after < of.Last; {
		found, err := g.opts.Store.Load(of.Key, after, maxItems, maxItemsBytes)
		if err != nil || len(found) == 0 {
			return changes, err
		}
		for _, r := range found {
			if after = r.N; after > of.Last { // it came since
				break
			}
			c := &gathered{
				key: of.Key, value: r.Value, n: r.N, since: r.Since, sent: r.Sent,
			}
			if c.since.After(g.restored) {
				c.since = g.restored // the clock was set meanwhile
			}
			if !g.opts.Ends {
				c.group = g.opts.Of(c.value.Delta)
			}
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// adopt puts older changes in front of those that have come since. After Ends it passes all of them
// on, in order, once they are complete. The caller holds mu.
func (g *gathering) adopt(loaded []*gathered) {
	slices.SortFunc(loaded, func(a, b *gathered) int { return cmp.Compare(a.n, b.n) })
	newer := make(map[rule.Group][]*gathered)
	for _, c := range loaded {
		if g.opts.Ends {
			c.group = rule.Group{}
		}
		if of := g.groups[c.group]; of != nil && newer[c.group] == nil {
			newer[c.group] = g.empty(of)
		}
	}
	for _, c := range loaded {
		g.add(c)
	}
	for _, changes := range newer {
		for _, c := range changes {
			g.add(c)
		}
	}
	if of := g.groups[rule.Group{}]; g.opts.Ends && len(g.unloaded) == 0 && of != nil {
		for _, c := range g.empty(of) {
			g.unrecord(c)
			g.lane.queue.AddSince(c.key, c.value, c.since)
		}
		g.schedule(of)
	}
}

// empty takes all changes out of a group, but leaves their records. The caller holds mu.
func (g *gathering) empty(of *group) (changes []*gathered) {
	for e := of.changes.Front(); e != nil; e = of.changes.Front() {
		c := e.Value.(*gathered)
		g.detach(of, c)
		changes = append(changes, c)
	}
	return changes
}

// stats returns how many changes wait for their group's event, and when the first event is due; the
// zero time if none is.
func (g *gathering) stats() (items int, lost uint64, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, at, ok := g.due.First(); ok && g.items > 0 {
		next = g.origin.Add(time.Duration(at) * time.Millisecond)
	}
	return g.items, g.lost, next
}

// holds returns how many changes of an object wait.
func (g *gathering) holds(key delta.Key) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held[key].n
}

// setDoubt does the work of Lane.Doubt. ok is false if g is closed.
func (g *gathering) setDoubt(on bool) (ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.doubt = on
	return !g.closed
}

func (g *gathering) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut()
}

// shut does the work of close. The caller holds mu.
func (g *gathering) shut() {
	g.closed = true
	if g.timer != nil {
		g.timer.Stop()
	}
}
