package source

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// state is a state of an object of the namespace "shop".
func state(t testing.TB, name, uid string, v int) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil,
		`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"resourceVersion":"%d"},"spec":{"v":%d}}`, name, uid, v, v))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// unconnected are Informers of a cluster that nobody asks.
func unconnected(t testing.TB) *Informers {
	t.Helper()
	s, err := New(new(rest.Config), http.DefaultClient, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// idle is an informer that does not run: the test is its handler and its clock.
func idle(t testing.TB) (*Informer, *ear) {
	t.Helper()
	i := unconnected(t).Informer(Selection{Resource: pods})
	e := newEar()
	i.AddListener(Listener{OnDelta: e.hear})
	return i, e
}

func TestWhatListenersAreToldOf(t *testing.T) {
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
			"the deletion of what nobody was told of is not told",
			func(_ *Informer, _, gone func(string, string, int)) { gone("a", "1", 1) },
			[]string{},
		},
		{
			"the deletion of another object of that name says that the known one is gone",
			func(_ *Informer, see, gone func(string, string, int)) { see("a", "1", 1); gone("a", "2", 9) },
			[]string{"added a 1", "deleted a 1"},
		},
		{
			"a deletion that was missed has the last state that was told",
			func(i *Informer, see, _ func(string, string, int)) {
				see("a", "1", 1)
				see("a", "1", 2)
				i.vanished(delta.Key{Namespace: "shop", Name: "a"}, nil, nil, "")
				i.vanished(delta.Key{Namespace: "shop", Name: "a"}, nil, nil, "")
			},
			[]string{"added a 1", "updated a 1→2", "deleted a 2"},
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			i, e := idle(t)
			c.do(i,
				func(name, uid string, v int) { i.observe(state(t, name, uid, v), delta.Added, nil, true) },
				func(name, uid string, v int) {
					i.vanished(delta.Key{Namespace: "shop", Name: name}, state(t, name, uid, v), nil, "")
				})
			heard, _ := e.all()
			if diff := cmp.Diff(c.want, words(heard)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A listener that joins late hears of what is there as synced, of each object before anything else of it.
func TestLateListener(t *testing.T) {
	i, _ := idle(t)
	i.parent.tuning.chunk = 1
	for n := range 4 {
		i.observe(state(t, fmt.Sprintf("o%d", n), "1", 1), delta.Added, nil, true)
	}
	late := newEar()
	i.AddListener(Listener{OnDelta: late.hear})
	late.silent(t)
	// Before it has heard of them: a change, a deletion, a recreation, and something new.
	i.observe(state(t, "o0", "1", 2), delta.Added, nil, true)
	i.vanished(delta.Key{Namespace: "shop", Name: "o1"}, nil, nil, "")
	i.observe(state(t, "o2", "2", 9), delta.Added, nil, true)
	i.observe(state(t, "new", "1", 1), delta.Added, nil, true)
	late.expect(t, "synced o0 2", "added o2 9", "added new 1")
	for more := true; more; {
		more, _ = i.step(time.Now())
	}
	late.expect(t, "synced o3 1")
	i.observe(state(t, "o3", "1", 2), delta.Added, nil, true)
	late.expect(t, "updated o3 1→2")
	late.silent(t)
}

// Each listener has a resync period of its own. A round tells every object once, in its newest state.
func TestResync(t *testing.T) {
	i, never := idle(t)
	i.parent.tuning.chunk = 2
	often, rarely := newEar(), newEar()
	i.AddListener(Listener{OnDelta: often.hear, Resync: 10 * time.Second})
	i.AddListener(Listener{OnDelta: rarely.hear, Resync: 25 * time.Second})
	start := time.Now()
	for n := range 5 {
		i.observe(state(t, fmt.Sprintf("o%d", n), "1", 1), delta.Added, nil, true)
	}
	const all = 5
	rounds := map[int64]int{}
	for second := range 31 {
		now := start.Add(time.Duration(second)*time.Second + time.Millisecond)
		for more := true; more; {
			more, _ = i.step(now)
		}
	}
	heard, _ := often.all()
	for _, d := range heard[all:] {
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
	for e, want := range map[*ear]int{never: all, rarely: 2 * all} {
		if heard, _ := e.all(); len(heard) != want {
			t.Errorf("heard %d deltas, want %d", len(heard), want)
		}
	}
}

// In the middle of a round, an object may change and another go: the rest of the round tells how things are.
func TestChangesDuringResync(t *testing.T) {
	i := unconnected(t).Informer(Selection{Resource: pods})
	i.parent.tuning.chunk = 1
	e := newEar()
	remove := i.AddListener(Listener{OnDelta: e.hear, Resync: time.Nanosecond}) // no less than a second
	i.observe(state(t, "a", "1", 1), delta.Added, nil, true)
	i.observe(state(t, "b", "1", 1), delta.Added, nil, true)
	e.expect(t, "added a 1", "added b 1")
	due := time.Now().Add(2 * time.Second)
	if more, _ := i.step(due); !more {
		t.Fatal("the round is over after one of two")
	}
	i.vanished(delta.Key{Namespace: "shop", Name: "a"}, nil, nil, "")
	i.vanished(delta.Key{Namespace: "shop", Name: "b"}, nil, nil, "")
	if more, next := i.step(due); more || next.Before(due.Add(time.Second)) {
		t.Fatalf("more: %v, next %v", more, next)
	}
	if heard, _ := e.all(); len(heard) != 3 {
		t.Errorf("heard %v", words(heard))
	}
	remove()
	remove()
	i.observe(state(t, "c", "1", 1), delta.Added, nil, true)
	if heard, _ := e.all(); len(heard) != 3 {
		t.Errorf("heard %v, removed", words(heard))
	}
}

func TestListenerThatPanics(t *testing.T) {
	i, after := idle(t)
	i.listeners = nil
	i.AddListener(Listener{OnDelta: func(delta.Delta, any) { panic("the listener's own fault") }})
	i.AddListener(Listener{OnDelta: after.hear})
	i.observe(state(t, "a", "1", 1), delta.Added, nil, true)
	i.observe(state(t, "a", "1", 2), delta.Added, nil, true)
	after.expect(t, "added a 1", "updated a 1→2")
	if n := i.Stats().ListenerPanics; n != 2 {
		t.Errorf("%d panics were counted", n)
	}
}
