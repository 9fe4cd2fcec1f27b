package source

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/integration/apistub"
)

var seed = flag.Uint64("differential.seed", 1, "of TestDifferential's changes")

// TestDifferential makes random changes of custom resources in all forms of JSON. client-go's
// dynamic informer and ours follow the same server. At quiet points both caches and indexes must
// equal the server's state, to the last number. What the informers report in between must obey
// these rules:
//
//   - While the server keeps its history, they report every change in order, even if watches are
//     dropped, refused for a while, or break within a frame. Ours does not list again. The rule
//     holds for client-go's informer unless it lists again.
//   - Where history is lost, they report a legal history. It moves forward through states that
//     existed, repeats nothing, and has every final state and every deletion.
func TestDifferential(t *testing.T) {
	t.Parallel()
	n := howMany()
	t.Logf("%d changes, -differential.seed=%d", n, *seed)
	courses := []course{
		{"everything, by WatchList", true, "", "", nil, []misfortune{brownOut, expire}},
		{"everything, by lists", false, "", "", nil, []misfortune{expire, brownOut}},
		{"labels move objects in and out", true, "", selected, nil, []misfortune{outage, brownOut, expire}},
		{"labels, in one namespace, by lists", false, "shop", selected, nil, []misfortune{expire, outage}},
		{"initial states are refused", true, "", "", nil, []misfortune{refuse, brownOut}},
		{"initial states are refused, by lists, and little is kept", false, "shop", "", keptPaths, []misfortune{refuse}},
		{"informd lists to keep more", true, "", selected, nil, []misfortune{
			widened(calm), widened(dropped), widened(broken), widened(brownOut), widened(calm), widened(broken)}},
		{"informd lists to keep more, by lists", false, "shop", "", keptPaths, []misfortune{
			widened(calm), widened(dropped), widened(broken), widened(brownOut), widened(calm), widened(broken)}},
		{"the resource goes away and comes back", true, "", selected, nil, []misfortune{withdraw}},
		{"the resource goes away and comes back, by lists, and little is kept", false, "", "", keptPaths, []misfortune{withdraw}},
	}
	for i, c := range courses {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			newDifferential(t, c, rand.New(rand.NewPCG(*seed, uint64(i)))).drive(n/len(courses), c.misfortunes)
		})
	}
}

type course struct {
	reason              string
	watchList           bool
	namespace, selector string
	keep                *object.Paths
	misfortunes         []misfortune // at equal distances
}

// howMany returns how many changes fit into the time of a test. `make soak` makes more.
func howMany() int {
	if testing.Short() {
		return 5_000
	}
	soak := os.Getenv("INFORMD_SOAK") != ""
	info, ok := debug.ReadBuildInfo()
	race := ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
	switch {
	case race && !soak:
		return 8_000
	case race:
		return 20_000
	}
	return 100_000
}

var gadgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}

// differential is one server and the two informers that follow it.
type differential struct {
	t         *testing.T
	random    *rand.Rand
	scribe    scribe
	server    *apistub.Server
	watchList bool
	truth     *truth
	objects   map[string]*custom // by key: the objects on the server, except the mark
	marks     int
	stock     *side
	ours      *side
	exact     int // stretches in which client-go's informer reported every change
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
		// a misfortune makes up to twice as many: fewer than apistub.DefaultHistory
		size := 1 + d.random.IntN(300)
		m := pick(d.random, everyday)
		if next < len(misfortunes) && done >= n*(next+1)/(len(misfortunes)+1) {
			m = misfortunes[next]
			next++
		}
		d.stretch(m, size)
		done += size
	}
	if d.exact == 0 {
		d.t.Error("client-go's informer never reported every change, so nothing was compared step by step")
	}
}

// stretch makes changes until the next quiet point, and compares.
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
		case s == d.ours && listed != (m.losesHistory || m.lists):
			d.t.Errorf("informd listed again: %v", listed)
		case listed && s == d.stock, m.losesHistory: // client-go's may have begun its list before
			d.truth.legally(d.t, heard)
		default:
			d.truth.exactly(d.t, heard)
			if s == d.stock {
				d.exact++
			}
		}
		d.compare(s)
		if d.t.Failed() {
			d.t.Fatalf("%s failed after %d changes (misfortune: %s)", s.wire.name, size, m.name)
		}
	}
}

// settle waits until both sides have reported everything. They report in order, and a watch's
// changes come after those of the list before it. So the second mark is the last thing to be
// reported.
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

// change changes one object, and now and then makes the server send bookmarks.
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
	case d.random.IntN(30) == 0: // deleted and created again; a watch sees an update
		d.scribe.change(c)
		c.uid = fmt.Sprintf("again-%d", d.random.Uint64())
	case d.random.IntN(20) == 0: // only managedFields change
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
