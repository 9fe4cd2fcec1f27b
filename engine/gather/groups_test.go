package gather

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// merge merges changes as a lane does, if they come in order.
func merge(waiting, newer delivery.Delivery, sent bool) (delivery.Delivery, bool, bool) {
	d, keep, ok := delta.Merge(waiting.Delta, newer.Delta, sent)
	return delivery.Delivery{Delta: d}, keep, ok
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

// Whatever happens, the groups count what they hold, record exactly that, and keep their bounds; in
// the end each object's newest change has been in an event.
func TestRandomGroups(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		records := make(shelf)
		last := make(map[rule.Group]LastEvent)
		options := Options{
			Wait: time.Duration(random.IntN(3)) * time.Second, Every: time.Duration(random.IntN(20)) * time.Second,
			Bounds: bounds(5 + random.IntN(20)), KeepsEach: random.IntN(2) == 0,
			Merge: merge, Dropped: func(*delivery.Delivery) {}, Records: records,
			Remember: func(id rule.Group, e LastEvent) { last[id] = e },
			Forget:   func(id rule.Group) { delete(last, id) },
		}
		now := start
		g := New(options, now, 0)
		to := &outlet{}
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
				g.Adopt(changes)
			default:
				name := fmt.Sprint("o", random.IntN(6))
				newest[name] = version
				g.Add(&Change{
					Group: rule.Group{byte('a' + random.IntN(12))}, Value: updated(t, name, version), Since: now,
				})
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
