package source

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
	"github.com/informd/informd/integration/apistub"
)

// cut is a consumer that records in memory. It also remembers its state after each step.
type cut struct {
	told Consumer

	mu       sync.Mutex
	objects  map[delta.Key]*object.Object
	version  string
	followed bool // there was a version
	complete bool
	past     []Saved
	history  bool // remember past
}

func newCut(told Consumer) *cut { return &cut{told: told, objects: map[delta.Key]*object.Object{}} }

func (c *cut) Take(s Step) {
	c.told.Take(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	d := s.Delta
	switch {
	case s.Round != nil || d.Object == nil:
	case d.Type == delta.Deleted:
		delete(c.objects, d.Key())
	default:
		c.objects[d.Key()] = d.Object
	}
	if s.Moved {
		c.version = s.Position
		c.followed = c.followed || c.version != ""
	}
	if c.history {
		c.past = append(c.past, c.state())
	}
}

func (c *cut) CaughtUp(known iter.Seq[*object.Object]) {
	c.told.CaughtUp(known)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.complete {
		panic("complete twice")
	}
	if c.complete = true; len(slices.Collect(known)) != len(c.objects) {
		panic("not all that is known was recorded")
	}
}

func (c *cut) state() Saved {
	return Saved{Objects: slices.Collect(maps.Values(c.objects)), ResourceVersion: c.version, HasFollowed: c.followed}
}

// saved returns what the next run restores.
func (c *cut) saved() Saved {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state()
}

// awaitVersion waits until the recorded position is the server's.
func (c *cut) awaitVersion(t testing.TB, server *apistub.Server) {
	t.Helper()
	await(t, "a cut at the server's resourceVersion", func() bool { return c.saved().ResourceVersion == server.ResourceVersion() })
}

// next returns the informer of another run, restored but not running.
func next(t testing.TB, server *apistub.Server, saved Saved) (*Informers, *Informer, *ear, *cut, *log) {
	t.Helper()
	s, lines := newInformers(t, server.Config(), Options{})
	s.tuning.still.silence = 1 // do not wait for silence
	i := s.Informer(Selection{Resource: pods})
	e := newEar()
	c := newCut(consumer(e.hear))
	i.Consume(c)
	for _, o := range saved.Objects {
		c.objects[delta.KeyOf(o)] = o
	}
	c.version, c.followed = saved.ResourceVersion, saved.HasFollowed || saved.ResourceVersion != ""
	i.Restore(saved)
	return s, i, e, c, lines
}

// firstRun runs an informer that sees a, b and c in state 1, and returns what it has saved.
func firstRun(t *testing.T, watchList bool) (*apistub.Server, Saved) {
	t.Helper()
	server, s, i, e, _ := serving(t, watchList, body("a", 1), body("b", 1), body("c", 1))
	c := newCut(consumer(e.hear))
	i.Consume(c)
	stop := run(t, s)
	e.expectAll(t, "synced a 1", "synced b 1", "synced c 1")
	c.awaitVersion(t, server)
	stop()
	if !c.complete {
		t.Error("CaughtUp was not called")
	}
	return server, c.saved()
}

func TestRestartReportsMissedChanges(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(*apistub.Server, *Saved){
		"with history":        func(*apistub.Server, *Saved) {},
		"without history":     func(s *apistub.Server, _ *Saved) { s.Expire() },
		"saved within a list": func(_ *apistub.Server, saved *Saved) { saved.ResourceVersion = "" },
		"saved in the first list": func(_ *apistub.Server, saved *Saved) {
			saved.ResourceVersion, saved.HasFollowed = "", false
		},
		"from the future":        func(_ *apistub.Server, saved *Saved) { saved.ResourceVersion = "999999" },
		"not a resource version": func(_ *apistub.Server, saved *Saved) { saved.ResourceVersion = "tomorrow" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, watchList bool) {
				server, saved := firstRun(t, watchList)
				server.Apply(pods, body("a", 2))
				server.Delete(pods, "shop", "b")
				server.Apply(pods, body("d", 1))
				between(server, &saved)
				s, i, e, c, _ := next(t, server, saved)
				run(t, s)
				added := "added d 1"
				if name == "saved in the first list" {
					added = "synced d 1" // it may have existed before
				}
				e.expectAll(t, "updated a 1→2", "deleted b 1", added)
				c.awaitVersion(t, server)
				if got := len(i.cache.list("", nil)); got != 3 || len(c.saved().Objects) != 3 {
					t.Errorf("the cache has %d objects and the record %d, want 3", got, len(c.saved().Objects))
				}
				server.Apply(pods, body("c", 2))
				e.expect(t, "updated c 1→2")
				c.awaitVersion(t, server)
			})
		})
	}
}

func TestUnchangedObjectsAreNeitherListedNorReported(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, saved := firstRun(t, watchList)
		before := server.Requests()
		s, i, e, c, _ := next(t, server, saved)
		if err := i.AddIndexers(map[string]Index{"byName": {Paths: nameIn, Values: func(tree any) []string {
			return []string{tree.(map[string]any)["metadata"].(map[string]any)["name"].(string)}
		}}}); err != nil {
			t.Fatal(err)
		}
		run(t, s)
		awaitSynced(t, i)
		after := server.Requests()
		if n := after.WatchLists[pods] - before.WatchLists[pods]; n != 0 {
			t.Errorf("%d WatchLists", n)
		}
		if n := after.Lists[pods] - before.Lists[pods]; n < 1 || n > 2 { // the empty ones, before and after the watch is opened
			t.Errorf("%d lists", n)
		}
		if found, err := collected(i.cache.byIndex("byName", "b")); err != nil || len(found) != 1 || version(found[0]) != "1" {
			t.Errorf("the index has %v, %v", found, err)
		}
		server.Apply(pods, body("b", 2))
		e.expect(t, "updated b 1→2")
		c.awaitVersion(t, server)
		e.silent(t)
		if got := i.Stats(); got.Lists != 0 || got.Objects != 3 {
			t.Errorf("stats %+v", got)
		}
	})
}

var nameIn = func() *object.Paths {
	p := new(object.Paths)
	p.Add("metadata", "name")
	return p
}()

// A run that ends before it could ask the server leaves the next one what it was given.
func TestRunWithoutServerKeepsThePosition(t *testing.T) {
	t.Parallel()
	server, saved := firstRun(t, true)
	server.Fail(func(*http.Request) *metav1.Status {
		return &metav1.Status{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "down"}
	})
	s, i, _, c, _ := next(t, server, saved)
	stop := run(t, s)
	awaitState(t, i, Failing)
	stop()
	if got := c.saved(); got.ResourceVersion != saved.ResourceVersion || len(got.Objects) != 3 {
		t.Errorf("saved %d objects at %q, want 3 at %q", len(got.Objects), got.ResourceVersion, saved.ResourceVersion)
	}
}

// A resumed informer has synced when it is as fresh as the server was, not when it has the saved
// state.
func TestResumedInformerSyncsOnceCaughtUp(t *testing.T) {
	t.Parallel()
	server, saved := firstRun(t, true)
	for v := range 50 {
		server.Apply(pods, body("a", v+2))
	}
	s, i, e, _, _ := next(t, server, saved)
	s.tuning.still.silence, s.tuning.still.hush = patience, patience
	run(t, s)
	awaitSynced(t, i)
	if heard, _ := e.all(); len(heard) != 50 {
		t.Errorf("it has synced after %d of 50 changes", len(heard))
	}
}

// The server's changes may enter while client-go still hands over the saved objects, which the
// consumer knows. None of them passes for one of those.
func TestResumedInformerHearsChangesDuringItsList(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true)
	c := newCut(consumer(e.hear))
	i.Consume(c)
	const objects = 5000
	for n := range objects {
		server.Apply(pods, body(fmt.Sprint("o", n), 1))
	}
	stop := run(t, s)
	c.awaitVersion(t, server)
	stop()
	var want []string
	for n := range objects {
		if n%30 == 0 {
			server.Apply(pods, body(fmt.Sprint("new", n), 1))
			want = append(want, fmt.Sprintf("added new%d 1", n))
			server.Apply(pods, body(fmt.Sprint("o", n), 2))
			want = append(want, fmt.Sprintf("updated o%d 1→2", n))
		}
	}
	s, i, e, _, _ = next(t, server, c.saved())
	s.tuning.still.silence, s.tuning.still.hush = patience, patience
	run(t, s)
	awaitSynced(t, i)
	heard, _ := e.all()
	if got := words(heard); !slices.Equal(got, want) {
		t.Errorf("heard %d changes, want %d: %s", len(got), len(want), cmp.Diff(want, got))
	}
}

// A resumed informer of objects that do not change has synced once the server has answered a
// request after the watch: it does not wait for long silence.
func TestResumedInformerOfIdleObjectsSyncsSoon(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprint("the server answers: ", answers), func(t *testing.T) {
			t.Parallel()
			server, saved := firstRun(t, true)
			server.Serve(widgets, "Widget", true)
			server.Apply(widgets, body("w", 1)) // so the saved version is not the server's
			var lists atomic.Int64
			server.Fail(func(r *http.Request) *metav1.Status {
				if strings.Contains(r.URL.Query().Get("fieldSelector"), nobody) && lists.Add(1) > 1 && !answers {
					return &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: 500}
				}
				return nil
			})
			s, i, e, _, _ := next(t, server, saved)
			s.tuning.still.silence, s.tuning.still.hush = 2*time.Second, time.Millisecond
			began := time.Now()
			run(t, s)
			awaitSynced(t, i)
			if took := time.Since(began); (took < s.tuning.still.silence) != answers {
				t.Errorf("it has synced after %v", took)
			}
			if heard, _ := e.all(); len(heard) > 0 {
				t.Errorf("heard %v", words(heard))
			}
		})
	}
}

// A resumed informer asks for the server's position in one namespace, so that the server does not
// look through all objects. It asks in all of them if the resource has none, or if the server refuses.
func TestResumedInformerAsksInOneNamespace(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	const everywhere, one = "/api/v1/pods", "/api/v1/namespaces/default/pods"
	for name, c := range map[string]struct {
		resource schema.GroupVersionResource
		refused  int32 // the status for the question in one namespace
		want     []string
	}{
		"with namespaces":    {pods, 0, []string{one}},
		"without namespaces": {nodes, 0, []string{"/api/v1/nodes"}},
		"not found":          {pods, http.StatusNotFound, []string{one, everywhere}},
		"forbidden":          {pods, http.StatusForbidden, []string{one, everywhere}},
		"once too many":      {pods, http.StatusTooManyRequests, []string{one}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apistub.New(t)
			server.Serve(c.resource, "Thing", c.resource == pods)
			server.Apply(c.resource, `{"metadata":{"name":"a"}}`)
			first := newCut(consumer(newEar().hear))
			s, _ := newInformers(t, server.Config(), Options{})
			s.Informer(Selection{Resource: c.resource}).Consume(first)
			stop := run(t, s)
			first.awaitVersion(t, server)
			stop()

			var paths sync.Map
			server.Fail(func(r *http.Request) *metav1.Status {
				if !strings.Contains(r.URL.Query().Get("fieldSelector"), nobody) {
					return nil
				}
				_, again := paths.Swap(r.URL.Path, true)
				if c.refused == 0 || r.URL.Path != one || again && c.refused == http.StatusTooManyRequests {
					return nil
				}
				return &metav1.Status{Status: metav1.StatusFailure, Code: c.refused, Reason: reasonFor(c.refused)}
			})
			s, lines := newInformers(t, server.Config(), Options{})
			i := s.Informer(Selection{Resource: c.resource})
			i.Consume(consumer(newEar().hear))
			i.Restore(first.saved())
			run(t, s)
			awaitSynced(t, i)
			var got []string
			paths.Range(func(path, _ any) bool { got = append(got, path.(string)); return true })
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("it asked at %v, want %v", got, c.want)
			}
			if lines.count("cannot resume") != 0 {
				t.Error("it has not resumed")
			}
		})
	}
}

func reasonFor(code int32) metav1.StatusReason {
	return map[int32]metav1.StatusReason{
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
	}[code]
}

// A resumed watch must be silent for longer if the server was slow to answer. What came while informd
// was busy has only to be read, but the server may have had no room to send all of it. A list would
// hide what came and went.
func TestHushFollowsTheServersAnswer(t *testing.T) {
	t.Parallel()
	set := stillness{hush: 10 * time.Millisecond, partHush: 100 * time.Millisecond, silence: time.Second}
	const now, late = -time.Hour, time.Hour // since the answer
	for _, c := range []struct {
		ago, took time.Duration
		isPartial bool
		want      time.Duration
	}{
		{now, 0, false, 10 * time.Millisecond},
		{now, 3 * time.Millisecond, false, 30 * time.Millisecond},
		{now, 150 * time.Millisecond, false, time.Second},
		{late, 3 * time.Millisecond, false, 10 * time.Millisecond},
		{late, 30 * time.Millisecond, false, 60 * time.Millisecond},
		{late, time.Minute, false, time.Second},
		{late, 3 * time.Millisecond, true, 100 * time.Millisecond},
		{late, 50 * time.Millisecond, true, 500 * time.Millisecond},
		{now, time.Minute, true, time.Second},
	} {
		a := answer{at: time.Now().Add(-c.ago), took: c.took}
		if got := set.after(a, c.isPartial); got != c.want {
			t.Errorf("%+v: the watch must be silent for %v", c, got)
		}
	}
}

// The goroutines that restore share no object: each is restored once, in its place, with the values
// of all indexes.
func TestRestoredObjectsHaveTheirIndexValues(t *testing.T) {
	t.Parallel()
	s, _ := newInformers(t, apistub.New(t).Config(), Options{})
	i := s.Informer(Selection{Resource: pods})
	in := func(field string) Index {
		p := new(object.Paths)
		p.Add("metadata", field)
		return Index{Paths: p, Values: func(tree any) []string {
			return []string{fmt.Sprint(tree.(map[string]any)["metadata"].(map[string]any)[field])}
		}}
	}
	if err := i.AddIndexers(map[string]Index{"byName": in("name"), "byUID": in("uid")}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 1024, 5000} {
		var objects []*object.Object
		for k := range n {
			objects = append(objects, object.FromIdentity("shop", fmt.Sprint("o", k), fmt.Sprint("u", k), "1"))
		}
		entries := i.reader.restored(t.Context(), &Saved{Objects: objects}, i.Packer())
		if len(entries) != n {
			t.Fatalf("%d entries of %d objects", len(entries), n)
		}
		for k, o := range entries {
			e := o.(*entry)
			want := [][]string{{fmt.Sprint("o", k)}, {fmt.Sprint("u", k)}}
			if e.Object != objects[k] || !cmp.Equal(e.values, want) {
				t.Fatalf("entry %d is %s with %v, want %v", k, e.Key(), e.values, want)
			}
		}
	}
}

// The state may hand over plain objects, and may have packed some of them beside their text. Nobody
// is about to deliver any of them.
func TestRestoredObjectsArePacked(t *testing.T) {
	t.Parallel()
	server, saved := firstRun(t, true)
	saved.Objects = []*object.Object{wordy(t, "a", 1), wordy(t, "b", 1)}
	s, i, _, _, _ := next(t, server, saved)
	i.Packer().PackBeside(saved.Objects[1])
	run(t, s)
	awaitSynced(t, i)
	for _, o := range saved.Objects {
		if !o.IsPacked() {
			t.Errorf("%s is plain", o.Key())
		}
	}
}

// A run that ends while it restores objects does not finish that first.
func TestRunEndsWhileItRestores(t *testing.T) {
	t.Parallel()
	server, saved := firstRun(t, true)
	most := 1024 * runtime.GOMAXPROCS(0) // each goroutine finishes what it has begun
	saved.Objects = nil
	for n := range most + 5000 {
		saved.Objects = append(saved.Objects, object.FromIdentity("shop", fmt.Sprint(n), "u", "1"))
	}
	s, i, _, c, _ := next(t, server, saved)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	values := func(any) []string {
		calls.Add(1)
		cancel()
		return nil
	}
	if err := i.AddIndexers(map[string]Index{"i": {Paths: nameIn, Values: values}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := calls.Load(); n == 0 || n > int64(most) {
		t.Errorf("it restored %d of %d objects", n, len(saved.Objects))
	}
	if got := c.saved(); got.ResourceVersion != saved.ResourceVersion || len(got.Objects) != len(saved.Objects) {
		t.Errorf("saved %d objects at %q", len(got.Objects), got.ResourceVersion)
	}
}

func TestRecreatedObjectIsDeletedAndAdded(t *testing.T) {
	t.Parallel()
	server, saved := firstRun(t, true)
	server.Delete(pods, "shop", "a")
	server.Apply(pods, body("a", 5))
	server.Expire()
	s, _, e, _, _ := next(t, server, saved)
	run(t, s)
	e.expect(t, "deleted a 1", "added a 5")
}

func TestGoneResourceDeletesItsObjects(t *testing.T) {
	t.Parallel()
	server, saved := firstRun(t, true)
	server.Withdraw(pods)
	s, i, e, c, _ := next(t, server, saved)
	run(t, s)
	e.expectAll(t, "deleted a 1", "deleted b 1", "deleted c 1")
	awaitState(t, i, NotServed)
	if got := c.saved(); len(got.Objects) != 0 || got.ResourceVersion != "" {
		t.Errorf("saved %+v", got)
	}
}

func TestKeptFieldsReportOnlyChangedObjects(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, saved := firstRun(t, watchList)
		for n, o := range saved.Objects {
			saved.Objects[n] = object.FromIdentity(o.Namespace(), o.Name(), o.UID(), o.ResourceVersion())
		}
		saved.Partial = true
		server.Apply(pods, body("a", 2))
		server.Delete(pods, "shop", "b")
		server.Apply(pods, body("d", 1))
		s, i, e, c, _ := next(t, server, saved)
		var mu sync.Mutex
		returned := map[string]string{}
		c.told = steps(func(s Step) {
			consumer(e.hear).Take(s)
			if s.Saved == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			o, saved := s.Delta.Object, s.Saved
			if returned[o.Name()] = "gone"; s.Delta.Type != delta.Deleted {
				returned[o.Name()] = fmt.Sprint(version(saved), "→", version(o), " ", o.ResourceVersion() == saved.ResourceVersion())
			} else if o != saved {
				t.Errorf("%s is gone, but its last state is not the saved one", o.Name())
			}
		})
		run(t, s)
		e.expectAll(t, "synced a 2 again", "added d 1", "deleted b <nil>")
		c.awaitVersion(t, server)
		for _, o := range c.saved().Objects {
			if version(o) == "<nil>" {
				t.Errorf("the record still has only a part of %s", o.Name())
			}
		}
		mu.Lock()
		defer mu.Unlock()
		want := map[string]string{"a": "<nil>→2 false", "b": "gone", "c": "<nil>→1 true"}
		if diff := cmp.Diff(want, returned); diff != "" {
			t.Errorf("returned (-want +got)\n%s", diff)
		}
		if o, ok := i.cache.get("shop", "c"); !ok || version(o) != "1" {
			t.Error("the cache has only a part of c")
		}
	})
}

// A list completes parts in any order. A run that ends in the middle of the list must not leave a
// position that is older than the steps it handed over. Otherwise the next run would hand over
// older states again.
func TestPositionOfARunThatEndsWithinAList(t *testing.T) {
	server, saved := firstRun(t, true)
	parts := func(saved Saved) Saved {
		for n, o := range saved.Objects {
			saved.Objects[n] = object.FromIdentity(o.Namespace(), o.Name(), o.UID(), o.ResourceVersion())
		}
		saved.Partial, saved.Follow = true, true
		return saved
	}
	server.Apply(pods, body("b", 2)) // the watch reports it before the list
	changed := new(atomic.Bool)
	server.Fail(func(r *http.Request) *metav1.Status {
		if r.URL.Query().Get("sendInitialEvents") == "true" && !changed.Swap(true) {
			server.Apply(pods, body("a", 2))
			server.Apply(pods, body("a", 3))
		}
		return nil
	})
	s, i, e, c, _ := next(t, server, parts(saved))
	s.tuning.still.silence, s.tuning.still.hush = patience, patience // so the watch reaches the version that the server had
	c.history = true
	stop := run(t, s)
	awaitSynced(t, i)
	c.awaitVersion(t, server)
	stop()
	heard, _ := e.all()
	if got, want := words(heard), []string{"synced b 2 again", "synced a 3 again"}; !slices.Equal(got, want) {
		t.Fatalf("heard %v, want %v", got, want)
	}

	newest := heard[1].Object.ResourceVersion()
	middle := slices.IndexFunc(c.past, func(s Saved) bool {
		return slices.ContainsFunc(s.Objects, func(o *object.Object) bool { return o.ResourceVersion() == newest })
	})
	s, i, e, c, _ = next(t, server, parts(c.past[middle]))
	s.tuning.still.silence, s.tuning.still.hush = patience, patience
	run(t, s)
	awaitSynced(t, i)
	c.awaitVersion(t, server)
	if heard, _ := e.all(); len(heard) != 0 {
		t.Errorf("heard %v after a run that had told of the newest states", words(heard))
	}
}

// Whenever a run ends, the steps of all runs together yield the server's objects, each in its last
// state.
func TestAnyCutCanBeResumed(t *testing.T) {
	t.Parallel()
	const rounds, changes, names = 12, 30, 6
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	server := apistub.New(t)
	server.Serve(pods, "Pod", true)
	saved := Saved{}
	v, exists := 0, map[string]bool{}
	change := func() {
		v++
		name := fmt.Sprintf("o%d", random.IntN(names))
		if exists[name] && random.IntN(3) == 0 {
			server.Delete(pods, "shop", name)
			delete(exists, name)
		} else {
			server.Apply(pods, body(name, v))
			exists[name] = true
		}
	}
	for range rounds {
		for range random.IntN(changes) {
			change()
		}
		if random.IntN(4) == 0 {
			server.Expire()
		}
		s, i, e, c, _ := next(t, server, saved)
		c.history = true
		stop := run(t, s)
		for range random.IntN(changes) {
			change()
		}
		awaitSynced(t, i) // the position may be the server's before the saved objects are in the cache
		c.awaitVersion(t, server)
		stop()

		told := map[delta.Key]string{}
		for _, o := range saved.Objects {
			told[delta.KeyOf(o)] = version(o)
		}
		heard, _ := e.all()
		for _, d := range heard {
			was, there := told[d.Key()]
			switch {
			case d.Type == delta.Updated && was != version(d.Old):
				t.Fatalf("%s is updated from %s, but was at %s", d.Key(), version(d.Old), was)
			case d.Type == delta.Synced && saved.HasFollowed:
				t.Fatalf("%s is synced, though an earlier run followed the server", d.Key())
			case d.Type == delta.Added && there:
				t.Fatalf("%s is added again", d.Key())
			case d.Type == delta.Deleted && !there:
				t.Fatalf("%s is deleted again", d.Key())
			}
			if told[d.Key()] = version(d.Object); d.Type == delta.Deleted {
				delete(told, d.Key())
			}
		}
		have := map[delta.Key]string{}
		for _, o := range i.cache.list("", nil) {
			have[delta.KeyOf(o)] = version(o)
		}
		if diff := cmp.Diff(have, told); diff != "" {
			t.Fatalf("the cache and the steps differ (-cache +steps):\n%s\n%s", diff, strings.Join(words(heard), "\n"))
		}
		saved = c.past[random.IntN(len(c.past))] // as if killed after any step
	}
}

func (*cut) Tick(time.Time, func(string) *object.Object) (again time.Time) { return again }

func (*cut) Round(timing.Timetable, int64, bool) {}
func (*cut) Holds(timing.Timetable, string) bool { return false }
func (*cut) Handed(timing.Timetable)             {}
