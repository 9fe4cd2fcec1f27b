package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/integration/apistub"
)

func TestFirstListIsSyncedAndLaterChangesFollow(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, _ := serving(t, watchList, body("a", 1))
		run(t, s)
		e.expect(t, "synced a 1")
		awaitSynced(t, i)
		server.AwaitWatches(pods, 1)
		server.Apply(pods, body("a", 2))
		server.Apply(pods, body("b", 1))
		server.Delete(pods, "shop", "a")
		e.expect(t, "updated a 1→2", "added b 1", "deleted a 2")
		if got := i.LastSyncResourceVersion(); got != server.ResourceVersion() {
			t.Errorf("resourceVersion %s, the server is at %s", got, server.ResourceVersion())
		}
		want := Requests{WatchLists: 1}
		if !watchList {
			want = Requests{WatchLists: 1, Lists: 1} // requested in vain, then a list
		}
		r := server.Requests()
		if got := (Requests{r.Lists[pods], r.WatchLists[pods]}); got != want {
			t.Errorf("requests %+v, want %+v", got, want)
		}
	})
}

// Requests counts the requests that matter here.
type Requests struct{ Lists, WatchLists int }

func TestDeletedHasFinalAndPreviousState(t *testing.T) {
	t.Parallel()
	server, s, _, e, _ := serving(t, true, body("a", 1))
	run(t, s)
	server.AwaitWatches(pods, 1)
	await(t, "the first", func() bool { heard, _ := e.all(); return len(heard) == 1 })
	server.Delete(pods, "shop", "a")
	await(t, "the deletion", func() bool { heard, _ := e.all(); return len(heard) == 2 })
	heard, _ := e.all()
	if d := heard[1]; d.Type != delta.Deleted || d.Old != heard[0].Object || d.Object.ResourceVersion() != server.ResourceVersion() {
		t.Errorf("%v: old %v, object at %s", d.Type, d.Old == heard[0].Object, d.Object.ResourceVersion())
	}
}

// While a watch is down, the informer loses nothing that the server remembers: the next watch goes
// on from the same position, without a list.
func TestDroppedWatchResumes(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, lines := serving(t, watchList, body("a", 1), body("b", 1))
		run(t, s)
		e.expectAll(t, "synced a 1", "synced b 1")
		awaitState(t, i, Synced)
		server.AwaitWatches(pods, 1)
		for round := range 3 { // also if the watch before brought nothing
			server.Fail(func(*http.Request) *metav1.Status {
				return &metav1.Status{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "down"}
			})
			server.DropWatches()
			awaitState(t, i, Failing)
			if round < 2 {
				server.Fail(nil)
				awaitState(t, i, Synced)
				server.AwaitWatches(pods, 1)
				continue
			}
			server.Apply(pods, body("a", 2))
			server.Delete(pods, "shop", "b")
			server.Apply(pods, body("a", 3))
			server.Apply(pods, body("b", 2))
			server.Fail(nil)
		}
		e.expect(t, "updated a 1→2", "deleted b 1", "updated a 2→3", "added b 2")
		awaitState(t, i, Synced)
		if lists := i.Stats().Lists; lists != 1 {
			t.Errorf("listed %d times", lists)
		}
		if said := lines.count("source is failing"); said != 1 {
			t.Errorf("three outages within a minute were logged %d times", said)
		}
	})
}

// If the server has lost the history, the informer compares a list with what the consumer knows.
func TestExpiredHistoryIsComparedWithAList(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, _ := serving(t, watchList, body("changed", 1), body("deleted", 1), body("recreated", 1), body("same", 1))
		run(t, s)
		e.expectAll(t, "synced changed 1", "synced deleted 1", "synced recreated 1", "synced same 1")
		awaitState(t, i, Synced)
		server.AwaitWatches(pods, 1)
		before, _ := i.cache.get("shop", "recreated")

		server.Fail(func(*http.Request) *metav1.Status {
			return &metav1.Status{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "down"}
		})
		server.DropWatches()
		awaitState(t, i, Failing)
		server.Apply(pods, body("added", 1))
		server.Apply(pods, body("changed", 2))
		server.Apply(pods, body("changed", 3))
		server.Delete(pods, "shop", "deleted")
		server.Delete(pods, "shop", "recreated")
		server.Apply(pods, body("recreated", 9))
		server.Apply(pods, body("fleeting", 1))
		server.Delete(pods, "shop", "fleeting")
		server.Expire()
		server.Fail(nil)

		await(t, "the comparison", func() bool { heard, _ := e.all(); return len(heard) >= 5 })
		heard, _ := e.all()
		perObject := map[string]string{}
		for _, d := range heard {
			perObject[d.Object.Name()] += words([]delta.Delta{d})[0] + "; "
			if d.Type == delta.Deleted && d.Old == nil {
				t.Errorf("%s was deleted without the state before", d.Object.Name())
			}
			if d.Type == delta.Deleted && d.Object.Name() == "recreated" && d.Object.UID() != before.UID() {
				t.Error("the deletion is of the wrong object")
			}
		}
		for name, want := range map[string]string{
			"added":     "added added 1; ",
			"changed":   "updated changed 1→3; ",
			"deleted":   "deleted deleted 1; ",
			"recreated": "deleted recreated 1; added recreated 9; ",
			"same":      "",
			"fleeting":  "",
		} {
			if perObject[name] != want {
				t.Errorf("%s: heard %q, want %q", name, perObject[name], want)
			}
		}
		if unchanged := i.Stats().Unchanged; unchanged != 1 {
			t.Errorf("%d updates without a change were dropped, want 1", unchanged)
		}
	})
}

func TestOpenWatchThatExpiresIsComparedWithAList(t *testing.T) {
	t.Parallel()
	server, s, i, e, lines := serving(t, true, body("a", 1))
	run(t, s)
	e.expect(t, "synced a 1")
	awaitState(t, i, Synced)
	server.AwaitWatches(pods, 1)
	server.SetHistory(1)
	server.Load(pods, 3, func(n int) any { return body("a", n+2) }) // more than the server remembers
	e.expect(t, "updated a 1→4")
	if state, _ := i.State(); state != Synced || lines.count("failing") > 0 {
		t.Errorf("an expired watch is no failure, but: %v", state)
	}
}

// An object that a list finds again is known already, and memory holds it once.
func TestRelistKeepsKnownObjects(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, _, _ := serving(t, watchList)
		server.Load(pods, 200, nil)
		run(t, s)
		awaitState(t, i, Synced)
		server.AwaitWatches(pods, 1)
		lists := i.Stats().Lists
		server.Expire()
		await(t, "another list", func() bool { return i.Stats().Lists > lists && i.Stats().Unchanged >= 200 })
		i.feed.mu.Lock()
		defer i.feed.mu.Unlock()
		for key, known := range i.feed.known {
			if found, _ := i.cache.get(known.Namespace(), known.Name()); found != known {
				t.Fatalf("%s is held twice", key)
			}
		}
	})
}

func TestObjectsThatCannotBeReadDoNotExist(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		tooLarge := func(name string) string { // valid JSON, but the number fits no type
			return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"v":1e400}}`, name)
		}
		server, s, i, e, lines := serving(t, watchList, body("good", 1), body("fine", 1))
		// unlike Apply, Load does not decode it
		apply := func(o string) { server.Load(pods, 1, func(int) any { return o }) }
		apply(tooLarge("bad"))
		run(t, s)
		e.expectAll(t, "synced fine 1", "synced good 1")
		awaitState(t, i, Synced)
		server.AwaitWatches(pods, 1)
		apply(tooLarge("bad"))
		apply(tooLarge("good"))
		server.Delete(pods, "shop", "bad")
		server.Apply(pods, body("good", 2))
		server.Delete(pods, "shop", "fine")
		e.expect(t, "deleted good 1", "added good 2", "deleted fine 1")
		if n := i.Stats().Unreadable; n < 4 {
			t.Errorf("%d unreadable objects were counted", n)
		}
		if said := lines.count("cannot be read"); said != 1 {
			t.Errorf("logged %d times in a minute", said)
		}
	})
}

// A frame that cannot be decoded looks like a connection that broke within a frame. The first time,
// the watch goes on from the same position. If that does not help, the informer lists.
func TestGarbageOnTheWire(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true, body("a", 1))
	run(t, s)
	e.expect(t, "synced a 1")
	awaitState(t, i, Synced)
	server.AwaitWatches(pods, 1)
	server.Garbage(pods, "{\"type\":\"MODIFIED\",\"object\":{]}\n")
	await(t, "another watch", func() bool { return i.Stats().Watches == 2 })
	server.AwaitWatches(pods, 1)
	server.Apply(pods, body("a", 2))
	e.expect(t, "updated a 1→2")
	if lists := i.Stats().Lists; lists != 1 {
		t.Errorf("listed %d times", lists)
	}
	for range 2 {
		watches := i.Stats().Watches
		server.Garbage(pods, "no JSON at all\n")
		await(t, "another watch", func() bool { return i.Stats().Watches > watches })
		server.AwaitWatches(pods, 1)
	}
	await(t, "a list", func() bool { return i.Stats().Lists == 2 })
	server.AwaitWatches(pods, 1)
	server.Apply(pods, body("a", 3))
	e.expect(t, "updated a 2→3")
}

func TestForbiddenIsLoggedOnceAndRecovers(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, lines := serving(t, watchList, body("a", 1))
		server.Forbid(pods, true)
		run(t, s)
		awaitState(t, i, Forbidden)
		await(t, "several attempts", func() bool { return server.Requests().Watches[pods] > 3 })
		if _, reason := i.State(); !strings.Contains(reason, `cannot watch resource "pods"`) {
			t.Errorf("the reason is %q", reason)
		}
		server.Forbid(pods, false)
		e.expect(t, "synced a 1")
		awaitState(t, i, Synced)

		// Objects that the informer knows stay in the cache.
		server.AwaitWatches(pods, 1)
		server.Forbid(pods, true)
		server.DropWatches()
		awaitState(t, i, Forbidden)
		if _, ok := i.cache.get("shop", "a"); !ok || !i.HasSynced() {
			t.Error("the known objects are gone")
		}
		server.Apply(pods, body("a", 2))
		server.Forbid(pods, false)
		e.expect(t, "updated a 1→2")
		awaitState(t, i, Synced)
		for text, want := range map[string]int{"source is forbidden": 1, "source works again": 1, "source has synced": 1} {
			if got := lines.count(text); got != want {
				t.Errorf("%q was logged %d times, want %d", text, got, want)
			}
		}
	})
}

func TestServerThatStartsLater(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(pods, "Pod", true)
	server.Apply(pods, body("a", 1))
	config := server.Config()
	var down atomic.Bool
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if down.Load() {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return next.RoundTrip(r)
		})
	}
	down.Store(true)
	s, lines := newInformers(t, config, Options{})
	var all []*Informer
	for _, namespace := range []string{"", "shop", "pay", "other"} {
		all = append(all, s.Informer(Selection{Resource: pods, Namespace: namespace}))
	}
	stop := run(t, s)
	for _, i := range all {
		awaitState(t, i, Failing)
		if _, reason := i.State(); reason != "cannot reach the API server: dial tcp: connect: connection refused" {
			t.Errorf("the reason is %q", reason)
		}
	}
	down.Store(false)
	awaitSynced(t, all...)
	await(t, "the news", func() bool { return lines.count("the API server answers again") == 1 })
	if said := lines.count("waiting for the API server"); said != 1 {
		t.Errorf("four informers logged %d times that the server cannot be reached:\n%s", said, lines)
	}

	// Shutdown waits for nothing, not even here, where client-go's reflector would sleep for up to
	// a minute.
	down.Store(true)
	server.DropWatches()
	for _, i := range all {
		awaitState(t, i, Failing)
	}
	stop()
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSlowServerDoesNotHoldUpShutdown(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, _, e, _ := serving(t, watchList, body("a", 1))
		defer server.HoldLists()()
		stop := run(t, s)
		server.Await("a list", func() bool { return server.Requests().MaxListing > 0 })
		stop()
		e.silent(t)
	})
}

func TestTooManyRequestsDoNotHoldUpShutdown(t *testing.T) {
	t.Parallel()
	server, s, i, _, _ := serving(t, true)
	server.Fail(func(*http.Request) *metav1.Status {
		return &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "busy"}
	})
	stop := run(t, s)
	awaitState(t, i, Failing)
	stop()
}

func TestInformersRunOnce(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	s, _ := newInformers(t, server.Config(), Options{})
	run(t, s)()
	if err := s.Run(t.Context()); err == nil {
		t.Error("a second Run began")
	}
}

func TestWaitForCacheSyncNamesMissingInformers(t *testing.T) {
	t.Parallel()
	server, s, i, _, _ := serving(t, true)
	server.Fail(func(*http.Request) *metav1.Status {
		return &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "its own fault"}
	})
	run(t, s)
	awaitState(t, i, Failing)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("out of patience"))
	err := NewSource("pods", []*Informer{i}, nil).WaitForCacheSync(ctx)
	if err == nil || !strings.HasPrefix(err.Error(), "v1/pods has not synced: failing: ") || !strings.HasSuffix(err.Error(), ": out of patience") {
		t.Errorf("the error is %q", err)
	}
	server.Fail(nil)
	server.Forbid(pods, true)
	awaitState(t, i, Forbidden)
	err = NewSource("pods", []*Informer{i}, nil).WaitForCacheSync(t.Context()) // returns at once
	if err == nil || !strings.HasPrefix(err.Error(), "v1/pods is forbidden: ") {
		t.Errorf("the error is %q", err)
	}
}

// client-go's watchList sleeps up to a minute on a 429 and ignores its context. So the wire passes
// on another error.
func TestTooManyRequestsAmongInitialEvents(t *testing.T) {
	t.Parallel()
	for _, initial := range []bool{true, false} {
		w := &watching{wire: &wire{}, initial: initial, events: make(chan watch.Event, 1)}
		status := apierrors.NewTooManyRequests("busy", 1).Status()
		w.fail(t.Context(), watch.Event{Type: watch.Error, Object: &status})
		err := apierrors.FromObject((<-w.events).Object)
		if apierrors.IsTooManyRequests(err) == initial {
			t.Errorf("initial %v: the reflector gets %v", initial, err)
		}
	}
}
