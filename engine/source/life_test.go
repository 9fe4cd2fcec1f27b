package source

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"

	"github.com/informd/informd/integration/apistub"
)

// Without AtomicFIFO a resumed informer would be ready before its store has all objects. The
// environment may switch it off, as that of any program with client-go.
func TestNoInformersWithoutAtomicFIFO(t *testing.T) { // not parallel: others need the feature
	config := apistub.New(t).Config()
	featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, false)
	if _, err := New(config, http.DefaultClient, nil, Options{}); err != errNotAtomic {
		t.Errorf("error %v", err)
	}
}

// The informer waits for a resource that is not served yet. Its objects did not exist when the
// informer first looked, so they are added. When the resource goes, each object is deleted once,
// whether or not the server reports the deletion.
func TestResourceThatComesAndGoes(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server := apistub.New(t)
		server.SetWatchList(watchList)
		s, lines := newInformers(t, server.Config(), Options{})
		i := s.Informer(Selection{Resource: widgets})
		e := newEar()
		i.Consume(consumer(e.hear))
		if err := i.AddIndexers(map[string]Index{"all": everything}); err != nil {
			t.Fatal(err)
		}
		run(t, s)

		awaitState(t, i, NotServed)
		if _, reason := i.State(); reason != "the cluster does not serve example.com/v1" {
			t.Errorf("the reason is %q", reason)
		}
		view := NewSource("widgets", []*Informer{i}, nil)
		if err := view.WaitForCacheSync(t.Context()); err == nil || // returns at once
			err.Error() != "example.com/v1/widgets is not served: the cluster does not serve example.com/v1" {
			t.Errorf("the wait for it: %v", err)
		}
		server.Serve(widgets, "Widget", true)
		server.Apply(widgets, body("a", 1))
		e.expect(t, "added a 1")
		awaitState(t, i, Synced)
		server.AwaitWatches(widgets, 1)
		server.Apply(widgets, body("b", 1))
		server.Apply(widgets, body("c", 1))
		server.Delete(widgets, "shop", "b") // like a deleted CRD: the informer sees some deletions,
		e.expect(t, "added b 1", "added c 1", "deleted b 1")
		server.Withdraw(widgets) // and misses others
		e.expectAll(t, "deleted a 1", "deleted c 1")
		awaitState(t, i, NotServed)
		if i.HasSynced() || len(i.cache.list("", nil)) > 0 {
			t.Error("the cache still has deleted objects")
		}
		if found, err := collected(i.cache.byIndex("all", "yes")); err != nil || len(found) > 0 {
			t.Errorf("the index has %d objects, %v", len(found), err)
		}

		server.Serve(widgets, "Widget", true)
		server.Apply(widgets, body("a", 2))
		e.expect(t, "added a 2")
		awaitState(t, i, Synced)
		if found, err := collected(i.cache.byIndex("all", "yes")); err != nil || len(found) != 1 {
			t.Errorf("the index has %d objects, %v", len(found), err)
		}
		e.silent(t)
		for text, want := range map[string]int{"does not serve the resource": 2, "serves the resource now": 2, "failing": 0} {
			if got := lines.count(text); got != want {
				t.Errorf("%q was logged %d times, want %d", text, got, want)
			}
		}
	})
}

// A missing resource blocks no other informer and costs the API server little. Informers that wait
// for the same group version share one request.
func TestMissingResourceDelaysNoOther(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true, body("a", 1))
	missing := s.Informer(Selection{Resource: widgets})
	run(t, s)
	e.expect(t, "synced a 1")
	awaitState(t, i, Synced)
	awaitState(t, missing, NotServed)
	server.AwaitWatches(pods, 1)
	server.Apply(pods, body("a", 2))
	e.expect(t, "updated a 1→2")
}

// One of several API servers may be behind. A 404 from a server whose discovery has the resource
// does not delete the objects.
func TestNotFoundAloneIsNotBelieved(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true, body("a", 1))
	run(t, s)
	e.expect(t, "synced a 1")
	awaitState(t, i, Synced)
	server.AwaitWatches(pods, 1)
	server.Fail(func(r *http.Request) *metav1.Status {
		if strings.HasSuffix(r.URL.Path, "/pods") {
			return &metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}
		}
		return nil
	})
	server.DropWatches()
	awaitState(t, i, Failing)
	server.Apply(pods, body("a", 2))
	server.Fail(nil)
	e.expect(t, "updated a 1→2")
}

// If discovery is forbidden, the resource's own answer must do. The informer does not log each
// attempt.
func TestForbiddenDiscovery(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Fail(func(r *http.Request) *metav1.Status {
		if !strings.HasSuffix(r.URL.Path, "/widgets") {
			return &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no discovery"}
		}
		return nil
	})
	s, lines := newInformers(t, server.Config(), Options{})
	s.served.silence = 0
	i := s.Informer(Selection{Resource: widgets})
	e := newEar()
	i.Consume(consumer(e.hear))
	run(t, s)
	tries := func() int { requests := server.Requests(); return requests.Lists[widgets] + requests.Watches[widgets] }
	server.Await("a few tries", func() bool { return tries() > 5 })
	server.Serve(widgets, "Widget", true)
	server.Apply(widgets, body("a", 1))
	e.expect(t, "added a 1")
	awaitState(t, i, Synced)
	for _, text := range []string{"does not serve the resource", "serves the resource now"} {
		if got := lines.count(text); got != 1 {
			t.Errorf("%q was logged %d times, want once", text, got)
		}
	}
}

func TestResourceThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	server.Serve(nodes, "Node", false)
	server.Serve(widgets, "Widget", true)
	server.Fail(func(r *http.Request) *metav1.Status {
		if strings.HasSuffix(r.URL.Path, "/widgets") && r.URL.Query().Get("watch") != "" {
			return &metav1.Status{Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed, Message: "no watch here"}
		}
		return nil
	})
	s, _ := newInformers(t, server.Config(), Options{})
	for sel, want := range map[Selection]string{
		{Resource: nodes, Namespace: "shop"}: "v1/nodes has no namespaces: leave namespaces out",
		{Resource: widgets}:                  "no watch here",
	} {
		i := s.Informer(sel)
		defer func() {
			awaitState(t, i, Unusable)
			if _, reason := i.State(); reason != want {
				t.Errorf("%v is unusable because of %q, want %q", sel, reason, want)
			}
			if i.HasSynced() || !i.IsSettled() {
				t.Errorf("%v: whoever looks it up waits for ever", sel)
			}
		}()
	}
	run(t, s)
}

// Of a hundred sources, only as many as Starts list at once.
func TestNoStampede(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server := apistub.New(t)
		server.SetWatchList(watchList)
		server.SlowLists(20 * time.Millisecond) // long enough to see them overlap
		s, _ := newInformers(t, server.Config(), Options{Starts: 3})
		var all []*Informer
		for n := range 100 {
			gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "r" + strings.Repeat("x", n)}
			server.Serve(gvr, "R", true)
			server.Apply(gvr, body("a", 1))
			all = append(all, s.Informer(Selection{Resource: gvr}))
		}
		run(t, s)
		awaitSynced(t, all...)
		// A slot is free when the client has its answer. The stub may count the end of the answer
		// only later.
		if most := server.Requests().MaxListing; most > 2*3 {
			t.Errorf("%d lists ran at once", most)
		}
	})
}

// A list that never ends keeps its slot only for a limited time.
func TestSlowListsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	server, s, i, _, _ := serving(t, true)
	server.Serve(widgets, "Widget", true)
	defer server.HoldLists()()
	s.slots = make(slots, 1)
	s.tuning.hold = 1
	s.Informer(Selection{Resource: widgets})
	run(t, s)
	server.Await("both lists", func() bool { return server.Requests().MaxListing == 2 })
	if state, _ := i.State(); state != Listing {
		t.Errorf("the state is %v", state)
	}
}

func TestEqualSelectionsShareOneInformer(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true, body("a", 1))
	run(t, s)
	e.expect(t, "synced a 1")
	if again := s.Informer(Selection{Resource: pods}); again != i {
		t.Fatal("a second informer")
	}
	// An informer requested while Run runs waits for Start, and selects as the server does.
	narrow := s.Informer(Selection{Resource: pods, Namespace: "shop", FieldSelector: "metadata.name=b"})
	heard := newEar()
	narrow.Consume(consumer(heard.hear))
	s.Start()
	awaitSynced(t, narrow)
	server.AwaitWatches(pods, 2)
	server.Apply(pods, body("b", 1))
	heard.expect(t, "added b 1")
	if watches := server.Requests().Watches[pods]; watches != 2 {
		t.Errorf("%d watches for two selections", watches)
	}
}

// Stop forgets an informer. Its watch ends, its consumer gets nothing more, and its cache stays
// readable. The other informers go on, and a new informer of the same selection starts afresh.
func TestStop(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true, body("a", 1))
	other := s.Informer(Selection{Resource: pods, Namespace: "shop"})
	heard := newEar()
	other.Consume(consumer(heard.hear))
	unborn := s.Informer(Selection{Resource: widgets})
	s.Stop(unborn) // before it runs
	run(t, s)
	e.expect(t, "synced a 1")
	heard.expect(t, "synced a 1")
	server.AwaitWatches(pods, 2)
	s.Stop(i)
	s.Stop(i)
	server.AwaitWatches(pods, 1)
	server.Apply(pods, body("a", 2))
	heard.expect(t, "updated a 1→2")
	e.silent(t)
	if o, ok := i.cache.get("shop", "a"); !ok || version(o) != "1" {
		t.Error("the cache of the stopped informer is not readable")
	}
	if all := s.All(); len(all) != 1 || all[0] != other {
		t.Errorf("%d informers are left", len(all))
	}
	again := s.Informer(Selection{Resource: pods})
	if again == i {
		t.Fatal("Stop did not forget the informer")
	}
	anew := newEar()
	again.Consume(consumer(anew.hear))
	s.Start()
	anew.expect(t, "synced a 2")
}

// An informer that was requested after Start may not be configured yet, so it does not run before the
// next Start, whatever else wakes Run.
func TestOnlyStartedInformersRun(t *testing.T) {
	t.Parallel()
	s, _ := newInformers(t, apistub.New(t).Config(), Options{})
	first := s.Informer(Selection{Resource: widgets})
	s.Start()
	later := s.Informer(Selection{Resource: widgets, Namespace: "shop"})
	if n := len(s.waiting(t.Context())); n != 1 || first.life.end == nil || later.life.end != nil {
		t.Errorf("%d informers run after Start, want only the first", n)
	}
	s.Start()
	if n := len(s.waiting(t.Context())); n != 1 || later.life.end == nil {
		t.Errorf("%d informers more run after the second Start, want the later one", n)
	}
}
