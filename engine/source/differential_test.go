package source

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/integration/apistub"
)

var seed = flag.Uint64("differential.seed", 1, "of TestDifferential's changes")

// TestDifferential changes custom resources at random, of every form that JSON has, and has client-go's dynamic informer
// and ours follow the same server. At quiet points both must have in their caches and indexes what is there, to the
// last number. Of what they tell in between:
//
//   - as long as the server keeps its history, everything, in its order, across watches that are dropped, that break within
//     a frame or that are refused for a while; ours without listing again, client-go's unless it lists again;
//   - where history is lost, a legal history: forward, through states that there were, nothing twice, every final state and
//     every deletion.
func TestDifferential(t *testing.T) {
	n := howMany()
	t.Logf("%d changes, -differential.seed=%d", n, *seed)
	courses := []course{
		{"everything, by WatchList", true, "", "", nil, []misfortune{brownOut, expire}},
		{"everything, by lists", false, "", "", nil, []misfortune{expire, brownOut}},
		{"labels move objects in and out", true, "", selected, nil, []misfortune{outage, brownOut, expire}},
		{"labels, in one namespace, by lists", false, "shop", selected, nil, []misfortune{expire, outage}},
		{"initial states are refused", true, "", "", nil, []misfortune{refuse, brownOut}},
		{"initial states are refused, by lists, and little is kept", false, "shop", "", keptPaths, []misfortune{refuse}},
		{"the resource goes away and comes back", true, "", selected, nil, []misfortune{withdraw}},
		{"the resource goes away and comes back, by lists, and little is kept", false, "", "", keptPaths, []misfortune{withdraw}},
	}
	var running sync.WaitGroup // not t.Parallel: they mostly wait, and there are more of them than processors
	defer running.Wait()
	for i, c := range courses {
		running.Go(func() {
			t.Run(c.reason, func(t *testing.T) {
				newDifferential(t, c, rand.New(rand.NewPCG(*seed, uint64(i)))).drive(n/len(courses), c.misfortunes)
			})
		})
	}
}

type course struct {
	reason              string
	watchList           bool
	namespace, selector string
	keep                *object.Paths
	misfortunes         []misfortune // in equal distances
}

// howMany changes fit into the time that a test may take.
func howMany() int {
	if testing.Short() {
		return 5_000
	}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 20_000
	}
	return 100_000
}

var gadgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}

// differential is one server, and both informers that follow it.
type differential struct {
	t         *testing.T
	random    *rand.Rand
	scribe    scribe
	server    *apistub.Server
	watchList bool
	truth     *truth
	objects   map[string]*custom // by key: what is on the server, but for the mark
	marks     int
	stock     *side
	ours      *side
	exact     int // stretches over which client-go's informer told everything
}

func newDifferential(t *testing.T, c course, random *rand.Rand) *differential {
	server := apistub.New(t)
	server.SetWatchList(c.watchList)
	server.Serve(gadgets, "Gadget", true)
	d := &differential{
		t: t, random: random, scribe: scribe{random}, server: server, watchList: c.watchList,
		truth: newTruth(selects(c.namespace, c.selector)), objects: map[string]*custom{},
	}
	d.truth.keeps = c.keep != nil
	d.truth.begin()
	d.changes(200)
	sel := Selection{Resource: gadgets, Namespace: c.namespace, LabelSelector: c.selector}
	wire := func(name string) *fickle { return newFickle(name, rand.New(rand.NewPCG(random.Uint64(), 0))) }
	d.stock = stock(t, server.Config(), sel, wire("client-go"))
	d.ours = ours(t, server.Config(), sel, c.keep, wire("informd"))
	d.settle()
	for _, s := range d.sides() {
		d.truth.legally(t, s.take())
		d.compare(s)
	}
	return d
}

func (d *differential) sides() []*side { return []*side{d.stock, d.ours} }

// drive makes n changes, in stretches between quiet points, with misfortunes among them.
func (d *differential) drive(n int, misfortunes []misfortune) {
	everyday := []misfortune{calm, calm, dropped, broken}
	for done, next := 0, 0; done < n && !d.t.Failed(); {
		size := 1 + d.random.IntN(300) // misfortunes make up to twice as many: less than apistub.DefaultHistory
		m := pick(d.random, everyday)
		if next < len(misfortunes) && done >= n*(next+1)/(len(misfortunes)+1) {
			m = misfortunes[next]
			next++
		}
		d.stretch(m, size)
		done += size
	}
	if d.exact == 0 {
		d.t.Error("client-go's informer has not once told everything: nothing was compared step by step")
	}
}

// stretch makes changes from one quiet point to the next, and compares.
func (d *differential) stretch(m misfortune, size int) {
	d.truth.begin()
	before := map[*side]int{}
	for _, s := range d.sides() {
		before[s] = s.wire.listed()
	}
	m.strikes(d, size)
	d.settle()
	for _, s := range d.sides() {
		s.wire.breakAfter(-1)
		heard, listed := s.take(), s.wire.listed() > before[s]
		switch {
		case s == d.ours && listed != m.losesHistory:
			d.t.Errorf("informd has listed: %v", listed)
		case listed:
			d.truth.legally(d.t, heard)
		default:
			d.truth.exactly(d.t, heard)
			if s == d.stock {
				d.exact++
			}
		}
		d.compare(s)
		if d.t.Failed() {
			d.t.Fatalf("of %s, after %d changes: %s", s.wire.name, size, m.name)
		}
	}
}

// settle waits until both sides have told everything. They tell in order: what comes through a watch comes after all
// that the list before it has brought, so the second mark is the last that there is to tell.
func (d *differential) settle() {
	for range 2 {
		d.marks++
		u := d.server.Apply(gadgets, fmt.Sprintf(
			`{"metadata":{"namespace":"shop","name":"mark","labels":{"tier":"web"}},"spec":{"n":%d}}`, d.marks))
		d.truth.applied(u)
		for _, s := range d.sides() {
			s.await(d.t, s.wire.name, tell(delta.Updated, u).version)
		}
	}
}

// change makes one change of some object, and now and then has the server send bookmarks.
func (d *differential) change() {
	if d.random.IntN(50) == 0 {
		d.server.Bookmark()
	}
	namespace, name := pick(d.random, []string{"shop", "pay", "depot"}), fmt.Sprintf("o%02d", d.random.IntN(80))
	key := namespace + "/" + name
	c := d.objects[key]
	switch {
	case c == nil:
		c = d.scribe.custom(namespace, name)
		d.objects[key] = c
	case d.random.IntN(6) == 0:
		d.server.Delete(gadgets, namespace, name)
		delete(d.objects, key)
		d.truth.deleted(key, d.server.ResourceVersion())
		return
	case d.random.IntN(30) == 0: // deleted and created again, and a watch sees an update
		d.scribe.change(c)
		c.uid = fmt.Sprintf("again-%d", d.random.Uint64())
	case d.random.IntN(20) == 0: // nothing but managedFields
	default:
		d.scribe.change(c)
	}
	d.truth.applied(d.server.Apply(gadgets, d.scribe.json(c)))
}

func (d *differential) changes(n int) {
	for range n {
		d.change()
	}
}
