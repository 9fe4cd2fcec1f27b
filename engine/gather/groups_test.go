package gather

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// updated is an update of an object, whose UID is its name.
func updated(t *testing.T, name string, version int) delivery.Delivery {
	t.Helper()
	of := func(version int) *object.Object {
		o, err := object.FromJSON(fmt.Appendf(nil,
			`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}`, name, name, version))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	return delivery.Delivery{Delta: delta.Delta{
		Type: delta.Updated, Object: of(version), Old: of(version - 1),
	}}
}

// merge merges changes as a lane does, except decided ones with undecided ones.
func merge(waiting, newer delivery.Delivery, sent bool) (delivery.Delivery, bool, bool) {
	if waiting.Undecided != newer.Undecided {
		return delivery.Delivery{}, false, false
	}
	d, keep, ok := delta.Merge(waiting.Delta, newer.Delta, sent)
	return delivery.Delivery{Delta: d, Undecided: newer.Undecided}, keep, ok
}

// shelf is Records in memory.
type shelf map[uint64]*Change

func (s shelf) Put(c *Change)    { s[c.N] = c }
func (s shelf) Delete(c *Change) { delete(s, c.N) }

// outlet is an Outlet whose deliveries end when a test says so.
type outlet struct {
	isFull bool
	busy   map[delta.Key]int
	events [][]string
	owns   func(*delivery.Delivery) (isOwn bool, wait time.Duration)
}

func (o *outlet) Resolve(d *delivery.Delivery) (isOwn bool, wait time.Duration) {
	if isOwn, wait = o.owns(d); wait == 0 {
		d.Version = ""
	}
	return isOwn, wait
}

func (o *outlet) IsFull() bool             { return o.isFull }
func (o *outlet) Holds(key delta.Key) bool { return o.busy[key] > 0 }

func (o *outlet) AddSince(key delta.Key, d delivery.Delivery, _ time.Time) {
	if o.busy == nil {
		o.busy = make(map[delta.Key]int)
	}
	o.busy[key]++
	var items []string
	for _, item := range d.Items {
		items = append(items, nameOf(item.Delta))
	}
	o.events = append(o.events, append(items, nameOf(d.Delta)))
}

func nameOf(d delta.Delta) string {
	return d.Object.Name() + "/" + d.Object.ResourceVersion()
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func bounds(items int) Bounds {
	return Bounds{MaxItems: items, MaxBytes: 1 << 30, MaxPerObject: 5, MaxGroups: 8}
}

func TestGroupHasOneEventAtATime(t *testing.T) {
	g := New(Options{Wait: time.Minute, Every: time.Hour, Bounds: bounds(10), Merge: merge}, start, 0)
	a, b := rule.Group{'a'}, rule.Group{'b'}
	to := &outlet{}
	at := func(d time.Duration) time.Time { return start.Add(d) }
	add := func(group rule.Group, name string, version int, when time.Duration) {
		g.Add(&Change{Group: group, Value: updated(t, name, version), Since: at(when)})
	}
	due := func() string {
		next, ok := g.Due(start)
		return fmt.Sprint(next.Sub(start), ok)
	}
	add(a, "x", 2, 0)
	add(a, "y", 3, time.Second)
	add(a, "x", 4, 2*time.Second)
	add(b, "z", 5, 3*time.Second)
	equal(t, "due", due(), "1m0s true")
	g.Emit(at(time.Minute), to)
	equal(t, "the first is in the order of the newest changes", to.events, "[[y/3 x/4]]")
	equal(t, "due", due(), "1m3s true")
	g.Emit(at(63*time.Second), to)
	add(a, "y", 6, 2*time.Minute)
	equal(t, "no earlier than Every allows", due(), "1h1m0s true")
	g.Emit(at(61*time.Minute), to)
	equal(t, "while the last one is busy", len(to.events), 2)
	to.busy[delta.Key{Name: "x"}] = 0
	if !g.Ended(delta.Key{Name: "x"}) {
		t.Error("no group waited")
	}
	equal(t, "due", due(), "1h1m0s true")
	g.Emit(at(61*time.Minute), to)
	equal(t, "afterwards", to.events, "[[y/3 x/4] [z/5] [y/6]]")
	if key, ok := g.LastObject(a); !ok || key.Name != "y" {
		t.Errorf("the last event is about %v", key)
	}
	if g.Ended(delta.Key{Name: "x"}) {
		t.Error("a group still waits for its event before the last")
	}
	add(a, "x", 7, 62*time.Minute)
	g.Emit(at(121*time.Minute), to)
	equal(t, "the next one is busy too", len(to.events), 3)
	to.busy[delta.Key{Name: "y"}] = 0
	if !g.Ended(delta.Key{Name: "y"}) {
		t.Error("no group waits for its last event")
	}
	g.Emit(at(121*time.Minute), to)
	equal(t, "then", to.events, "[[y/3 x/4] [z/5] [y/6] [x/7]]")
}

// While the outlet is full, nothing comes, until a delivery has ended or some time has passed.
func TestGroupsRest(t *testing.T) {
	g := New(Options{Bounds: bounds(10), Merge: merge}, start, 0)
	to := &outlet{}
	g.Add(&Change{Group: rule.Group{'a'}, Value: updated(t, "x", 2), Since: start})
	g.Emit(start, to)
	g.Add(&Change{Group: rule.Group{'a'}, Value: updated(t, "x", 3), Since: start})
	g.Emit(start, to) // x is busy
	g.Add(&Change{Group: rule.Group{'b'}, Value: updated(t, "y", 4), Since: start})
	to.isFull = true
	g.Emit(start, to)
	next, _ := g.Due(start)
	equal(t, "a full outlet is asked again after", next.Sub(start), restFor)
	g.Ended(delta.Key{Name: "x"})
	next, _ = g.Due(start)
	equal(t, "and at once when there may be room", next.Sub(start), "0s")
	equal(t, "events", to.events, "[[x/2]]")
}

// What does not fit into an event waits for the next one, from when it came.
func TestLargeGroup(t *testing.T) {
	g := New(Options{Wait: time.Minute, Bounds: bounds(2 * MaxItems), Merge: merge}, start, 0)
	for n := range MaxItems + 1 {
		since := start.Add(time.Duration(n) * time.Millisecond)
		g.Add(&Change{Value: updated(t, fmt.Sprint("o", n), n+2), Since: since})
	}
	to := &outlet{}
	g.Emit(start.Add(time.Minute), to)
	equal(t, "changes in the event", len(to.events[0]), MaxItems)
	next, _ := g.Due(start)
	equal(t, "the next one is due after", next.Sub(start), time.Minute+MaxItems*time.Millisecond)
}

// An event that seems to come from the future, because the clock was set, counts as one of now.
func TestLastEventInTheFuture(t *testing.T) {
	g := New(Options{Every: time.Hour, Bounds: bounds(10), Merge: merge}, start, 0)
	for n, at := range []time.Duration{-time.Minute, 24 * time.Hour} {
		id := rule.Group{byte('a' + n)}
		g.Restore(id, LastEvent{At: start.Add(at), Key: delta.Key{Name: "x"}}, start)
		g.Add(&Change{Group: id, Value: updated(t, fmt.Sprint("o", n), 2), Since: start})
		_, next := g.Look(delta.Key{Name: fmt.Sprint("o", n)})
		equal(t, "due after", next.Sub(start), time.Hour+min(at, 0))
	}
}

// An event waits until it is known who made its changes, and has none that the rule made itself.
func TestEventHasNoOwnChanges(t *testing.T) {
	isKnown := false
	to := &outlet{owns: func(d *delivery.Delivery) (bool, time.Duration) {
		if !isKnown {
			return false, time.Second
		}
		return d.Version == "own", 0
	}}
	records := make(shelf)
	g := New(Options{Bounds: bounds(10), Records: records, Merge: merge}, start, 0)
	for n, version := range []string{"own", "other", ""} {
		d := updated(t, fmt.Sprint("o", n), 2)
		d.Version = version
		g.Add(&Change{Value: d, Since: start})
	}
	g.Emit(start, to)
	next, _ := g.Due(start)
	equal(t, "asks again after", next.Sub(start), time.Second)
	isKnown = true
	g.Emit(next, to)
	equal(t, "events", to.events, "[[o1/2 o2/2]]")
	equal(t, "records", len(records), 0)
}

// Whatever happens, the groups count what they hold, record exactly that, and keep their bounds. The
// events of a group are in order. In the end each object's newest change has been in an event.
func TestRandomGroups(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		records := make(shelf)
		last := make(map[rule.Group]LastEvent)
		ofGroup := make(map[rule.Group]int) // the newest version in events
		to := &outlet{}
		options := Options{
			Wait: time.Duration(random.IntN(3)) * time.Second, Every: time.Duration(random.IntN(20)) * time.Second,
			Bounds: bounds(5 + random.IntN(20)), KeepsEach: random.IntN(2) == 0,
			Merge: merge, Dropped: func(*delivery.Delivery) {}, Records: records,
			Remember: func(id rule.Group, e LastEvent) {
				last[id] = e
				for _, item := range to.events[len(to.events)-1] {
					var version int
					_, text, _ := strings.Cut(item, "/")
					_, _ = fmt.Sscan(text, &version)
					if version <= ofGroup[id] {
						t.Errorf("seed %d: %s after version %d", seed, item, ofGroup[id])
					}
					ofGroup[id] = version
				}
			},
			Forget: func(id rule.Group) { delete(last, id) },
		}
		now := start
		g := New(options, now, 0)
		newest := make(map[string]int)
		endSome := func(all bool) {
			for key, n := range to.busy {
				if n > 0 && (all || random.IntN(2) == 0) {
					to.busy[key] = 0
					g.Ended(key)
				}
			}
		}
		for version := 2; version < 300; version++ {
			now = now.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
			add := func() {
				name := fmt.Sprint("o", random.IntN(6))
				newest[name] = version
				d := updated(t, name, version)
				d.Undecided = random.IntN(4) == 0
				g.Add(&Change{Group: rule.Group{byte('a' + random.IntN(12))}, Value: d, Since: now})
			}
			switch random.IntN(10) {
			case 0:
				endSome(false)
			case 1:
				to.isFull = !to.isFull
			case 2, 3:
				g.Emit(now, to)
			case 4: // another one takes over
				if random.IntN(4) > 0 {
					break
				}
				left := g.Leave(now)
				g = New(options, now, 0)
				g.Continue(left)
				for id, e := range left.Last {
					g.Restore(id, e, now)
				}
				for n := range records {
					delete(records, n)
				}
				changes := left.Changes()
				for _, c := range changes {
					records[c.N] = c
				}
				add() // meanwhile
				g.Adopt(changes)
			default:
				add()
			}
			checkGroups(t, g, records)
			if t.Failed() {
				t.Fatalf("seed %d, version %d", seed, version)
			}
		}
		to.isFull = false
		for range 1000 {
			at, ok := g.Due(now)
			if !ok {
				break
			}
			if at.After(now) {
				now = at
			}
			g.Emit(now, to)
			endSome(true)
		}
		checkGroups(t, g, records)
		if s := g.Stats(); s.Items+s.Groups > 0 || len(last) > 0 {
			t.Errorf("seed %d: %+v remains, and %d last events", seed, s, len(last))
		}
		for name, version := range newest {
			want := fmt.Sprintf("%s/%d", name, version)
			if !slices.ContainsFunc(to.events, func(e []string) bool { return slices.Contains(e, want) }) {
				t.Errorf("seed %d: %s was in no event", seed, want)
			}
		}
	}
}

// checkGroups checks that everything that finds changes finds the same ones.
func checkGroups(t *testing.T, g *Groups, records shelf) {
	t.Helper()
	n, bytes := 0, int64(0)
	for id, of := range g.groups {
		_, isDue := g.calendar.dueAt(id)
		if isDue != (of.changes.Len() > 0) {
			t.Errorf("a group with %d changes is due: %v", of.changes.Len(), isDue)
		}
		for c := of.changes.first(); c != nil; c = c.next() {
			if next := c.next(); next != nil && next.N < c.N {
				t.Errorf("a restart puts change %d before %d", next.N, c.N)
			}
			n++
			bytes += c.size
			if records[c.N] == nil || records[c.N] != c || c.Group != id {
				t.Errorf("the record of change %d is %v", c.N, records[c.N])
			}
		}
	}
	linked := 0
	for _, held := range g.changes.held {
		of := 0
		for c := held.oldest; c != nil; c = c.newer {
			if c.newer != nil && c.newer.N < c.N {
				t.Errorf("a restart puts change %d of an object before %d", c.newer.N, c.N)
			}
			of++
		}
		if of != held.n {
			t.Errorf("an object has %d changes, but counts %d", of, held.n)
		}
		linked += of
	}
	s := g.Stats()
	if n != s.Items || linked != n || len(records) != n || len(g.changes.last) > n || bytes != s.Bytes {
		t.Errorf("%d changes and %d bytes are in groups, %d changes of objects, %d recorded; counted are %+v",
			n, bytes, linked, len(records), s)
	}
	if most := g.opts.MaxItems + 6*g.opts.MaxPerObject; s.Items > most {
		t.Errorf("%d changes wait", s.Items)
	}
}
