package source

import (
	"fmt"
	"iter"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

// state returns a state of an object in the namespace shop.
func state(t testing.TB, name, uid string, v int) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil,
		`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"resourceVersion":"%d"},"spec":{"v":%d}}`, name, uid, v, v))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// unconnected returns Informers of a cluster that they never contact.
func unconnected(t testing.TB) *Informers {
	t.Helper()
	s, err := New(new(rest.Config), http.DefaultClient, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// idle returns an informer that does not run. The test plays its handler and its clock.
func idle(t testing.TB) (*Informer, *ear) {
	t.Helper()
	i := unconnected(t).Informer(Selection{Resource: pods})
	e := newEar()
	i.Consume(consumer(e.hear))
	return i, e
}

func TestDeltasOfTheConsumer(t *testing.T) {
	for _, c := range []struct {
		why  string
		do   func(i *Informer, see func(name, uid string, v int), gone func(name, uid string, v int))
		want []string
	}{
		{
			"changes of one object follow each other",
			func(_ *Informer, see, gone func(string, string, int)) {
				see("a", "1", 1)
				see("a", "1", 2)
				gone("a", "1", 3)
			},
			[]string{"added a 1", "updated a 1→2", "deleted a 3"},
		},
		{
			"an update whose resourceVersion did not change is not a change",
			func(_ *Informer, see, _ func(string, string, int)) { see("a", "1", 1); see("a", "1", 1) },
			[]string{"added a 1"},
		},
		{
			"a change of uid behind an update is a deletion and an addition",
			func(_ *Informer, see, _ func(string, string, int)) { see("a", "1", 1); see("a", "2", 5) },
			[]string{"added a 1", "deleted a 1", "added a 5"},
		},
		{
			"an object that was never reported is not reported as deleted",
			func(_ *Informer, _, gone func(string, string, int)) { gone("a", "1", 1) },
			[]string{},
		},
		{
			"the deletion of another object of that name says that the known one is gone",
			func(_ *Informer, see, gone func(string, string, int)) { see("a", "1", 1); gone("a", "2", 9) },
			[]string{"added a 1", "deleted a 1"},
		},
		{
			"a missed deletion has the last reported state",
			func(i *Informer, see, _ func(string, string, int)) {
				see("a", "1", 1)
				see("a", "1", 2)
				i.feed.vanished("shop/a", nil, arrival{}, "")
				i.feed.vanished("shop/a", nil, arrival{}, "")
			},
			[]string{"added a 1", "updated a 1→2", "deleted a 2"},
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			i, e := idle(t)
			c.do(i,
				func(name, uid string, v int) { i.feed.observe(state(t, name, uid, v), delta.Added, arrival{number: 1}) },
				func(name, uid string, v int) {
					i.feed.vanished("shop/"+name, state(t, name, uid, v), arrival{}, "")
				})
			heard, _ := e.all()
			if diff := cmp.Diff(c.want, words(heard)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// steps is a consumer of whole steps.
type steps func(Step)

func (take steps) Take(s Step) { take(s) }

func (steps) CaughtUp(iter.Seq[*object.Object]) {}

// A visit sees the objects that the consumer knows, between two steps.
func TestVisit(t *testing.T) {
	i, e := idle(t)
	for n := range 3 {
		i.feed.observe(state(t, fmt.Sprintf("o%d", n), "1", 1), delta.Added, arrival{number: 1})
	}
	i.feed.observe(state(t, "o0", "1", 2), delta.Added, arrival{number: 1})
	i.feed.vanished("shop/o1", nil, arrival{}, "")
	told, _ := e.all()
	i.Visit(func(known iter.Seq[*object.Object]) {
		var names []string
		for o := range known {
			names = append(names, o.Name()+" "+version(o))
		}
		slices.Sort(names)
		if diff := cmp.Diff([]string{"o0 2", "o2 1"}, names); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	if after, _ := e.all(); len(after) != len(told) {
		t.Errorf("the visit produced the deltas %v", words(after[len(told):]))
	}
	i.Visit(func(iter.Seq[*object.Object]) { panic("the visitor's own fault") })
	if n := i.Stats().ConsumerPanics; n != 1 {
		t.Errorf("%d panics were counted", n)
	}
}

// Each interval has its own rounds. A round hands over every object once, in its newest state, and
// does not move the position.
func TestResync(t *testing.T) {
	synctest.Test(t, testResync)
}

func testResync(t *testing.T) {
	i := unconnected(t).Informer(Selection{Resource: pods})
	i.feed.chunk = 2
	const often, rarely = timing.Every(10 * time.Second), timing.Every(25 * time.Second)
	heard := map[timing.Timetable][]delta.Delta{}
	i.Consume(steps(func(s Step) {
		heard[s.Round] = append(heard[s.Round], s.Delta)
		if s.Round != nil && s.Moved {
			t.Error("a resync moves the position")
		}
	}), rarely, often, rarely)
	i.feed.caughtUp = true
	start := time.Now()
	for n := range 5 {
		i.feed.observe(state(t, fmt.Sprintf("o%d", n), "1", 1), delta.Added, arrival{number: 1})
	}
	const all = 5
	rounds := map[int64]int{}
	for end := start.Add(30 * time.Second); !time.Now().After(end); {
		time.Sleep(time.Until(i.feed.tick()))
	}
	for _, d := range heard[often] {
		if d.Type != delta.Synced || d.Round == 0 {
			t.Errorf("%v in a resync", words([]delta.Delta{d}))
		}
		rounds[d.Round]++
	}
	if len(rounds) != 3 {
		t.Errorf("%d rounds in 30 s", len(rounds))
	}
	for round, n := range rounds {
		if n != all {
			t.Errorf("round %d had %d objects", round, n)
		}
	}
	for interval, want := range map[timing.Timetable]int{nil: all, rarely: all} {
		if got := len(heard[interval]); got != want {
			t.Errorf("%v: heard %d deltas, want %d", interval, got, want)
		}
	}
}

// If an object changes or goes in the middle of a round, the rest of the round shows the new state.
func TestChangesDuringResync(t *testing.T) {
	synctest.Test(t, testChangesDuringResync)
}

func testChangesDuringResync(t *testing.T) {
	i := unconnected(t).Informer(Selection{Resource: pods})
	i.feed.chunk = 1
	e := newEar()
	i.Consume(consumer(e.hear), timing.Every(time.Nanosecond)) // counts as a second
	i.feed.caughtUp = true
	i.feed.observe(state(t, "a", "1", 1), delta.Added, arrival{number: 1})
	i.feed.observe(state(t, "b", "1", 1), delta.Added, arrival{number: 1})
	e.expect(t, "added a 1", "added b 1")
	time.Sleep(2 * time.Second)
	if due := i.feed.tick(); due.After(time.Now()) {
		t.Fatal("the round is over after one of two")
	}
	i.feed.vanished("shop/a", nil, arrival{}, "")
	i.feed.vanished("shop/b", nil, arrival{}, "")
	if due := i.feed.tick(); time.Until(due) != time.Second {
		t.Fatalf("the next round is due in %v", time.Until(due))
	}
	if heard, _ := e.all(); len(heard) != 3 {
		t.Errorf("heard %v", words(heard))
	}
}

func TestConsumerThatPanics(t *testing.T) {
	i := unconnected(t).Informer(Selection{Resource: pods})
	after := newEar()
	i.Consume(consumer(func(d delta.Delta, tree any) {
		after.hear(d, tree)
		panic("the consumer's own fault")
	}))
	i.feed.observe(state(t, "a", "1", 1), delta.Added, arrival{number: 1})
	i.feed.observe(state(t, "a", "1", 2), delta.Added, arrival{number: 1})
	after.expect(t, "added a 1", "updated a 1→2")
	if n := i.Stats().ConsumerPanics; n != 2 {
		t.Errorf("%d panics were counted", n)
	}
}

func (steps) Tick(time.Time, func(string) *object.Object) (again time.Time) { return again }

func (steps) Round(timing.Timetable, int64, bool) {}
func (steps) Holds(timing.Timetable, string) bool { return false }
func (steps) Handed(timing.Timetable)             {}
