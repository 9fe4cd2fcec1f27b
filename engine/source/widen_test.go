package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// An informer that is to keep more lists once more. Its consumer hears nothing of objects that have
// not changed, and everything of those that have.
func TestWiden(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, _ := serving(t, watchList, body("a", 1), body("b", 1), body("c", 1))
		labels := new(object.Paths)
		labels.Add("metadata", "labels")
		i.Keep(labels, nil)
		run(t, s)
		awaitSynced(t, i)
		server.AwaitWatches(pods, 1)
		e.expectAll(t, "synced a <nil>", "synced b <nil>", "synced c <nil>")
		if o, _ := i.cache.get("shop", "a"); version(o) != "<nil>" {
			t.Fatalf("the cache has %s of a field that it does not keep", version(o))
		}

		// The server answers nothing for a while, and then has other objects.
		server.Fail(unavailable)
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := i.Widen(short, specV); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the server does not answer: %v", err)
		}
		if i.Kept().Covers("spec", "v") {
			t.Error("the cache is said to be complete, and has not been listed")
		}
		server.Apply(pods, body("b", 2))
		server.Delete(pods, "shop", "c")
		server.Apply(pods, body("d", 1))
		server.Fail(nil)
		if err := i.Widen(t.Context(), specV); err != nil {
			t.Fatal(err)
		}
		if !i.Kept().Covers("spec", "v") || !i.Kept().Covers("metadata", "labels") {
			t.Errorf("the cache keeps %v", i.Kept().List())
		}
		e.expect(t, "updated b 1→2", "deleted c 1", "added d 1") // as if it had not listed
		for name, want := range map[string]string{"a": "1", "b": "2", "d": "1"} {
			if o, ok := i.cache.get("shop", name); !ok || version(o) != want {
				t.Errorf("the cache has %s of %s, want %s", version(o), name, want)
			}
		}
		i.Visit(func(known iter.Seq[*object.Object]) {
			for o := range known {
				if version(o) == "<nil>" {
					t.Errorf("the consumer is handed %s without what is kept now", o.Name())
				}
			}
		})
		server.Apply(pods, body("a", 2))
		e.expect(t, "updated a 1→2")
		e.silent(t)
	})
}

// Nobody waits for an informer that has no objects.
func TestWidenWhatIsNotServed(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true)
	server.Withdraw(pods)
	i.Keep(object.Identity(), nil)
	run(t, s)
	awaitState(t, i, NotServed)
	if err := i.Widen(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	server.Serve(pods, "Pod", true)
	server.Apply(pods, body("a", 1))
	e.expect(t, "added a 1")
}

// An informer that lists once more, to keep more, misses no change.
func TestWidenMissesNothing(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		const changes = 400
		server, s, i, e, _ := serving(t, watchList, body("a", 0))
		i.Keep(object.Identity(), nil)
		run(t, s)
		awaitSynced(t, i)
		server.AwaitWatches(pods, 1)
		var changing sync.WaitGroup
		changing.Go(func() {
			for v := range changes {
				server.Apply(pods, body("a", v+1))
				time.Sleep(time.Millisecond)
			}
		})
		more := new(object.Paths)
		more.Add("metadata", "labels")
		for _, paths := range []*object.Paths{more, specV, nil} {
			if err := i.Widen(t.Context(), paths); err != nil {
				t.Fatal(err)
			}
		}
		changing.Wait()
		await(t, "all changes", func() bool { heard, _ := e.all(); return len(heard) > changes })
		heard, _ := e.all()
		for n, d := range heard[1:] {
			if before := heard[n].Object; d.Old == nil || d.Old.ResourceVersion() != before.ResourceVersion() {
				t.Errorf("change %d does not follow the one before", n)
			}
		}
		if o, _ := i.cache.get("shop", "a"); version(o) != fmt.Sprint(changes) {
			t.Errorf("the cache has %s", version(o))
		}
	})
}

// An informer that resumes, and is to keep more, has caught up once it is as fresh as the server was,
// not when it has listed at the version that it had.
func TestWidenWhileItCatchesUp(t *testing.T) {
	t.Parallel()
	const changes = 50
	server, saved := firstRun(t, true)
	for v := range changes {
		server.Apply(pods, body("a", v+2))
	}
	s, i, e, _, _ := next(t, server, saved)
	s.tuning.still.silence, s.tuning.still.hush = patience, patience
	i.gate = newGate(1)
	heard, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	i.Consume(consumer(func(d delta.Delta, tree any) {
		e.hear(d, tree)
		once.Do(func() { close(heard); <-goOn })
		time.Sleep(time.Millisecond)
	}))
	run(t, s)
	<-heard
	widened := make(chan error, 1)
	go func() { widened <- i.Widen(t.Context(), nil) }()
	close(goOn)
	awaitSynced(t, i)
	if heard, _ := e.all(); len(heard) != changes {
		t.Errorf("it has synced after %d of %d changes", len(heard), changes)
	}
	if err := <-widened; err != nil {
		t.Error(err)
	}
	e.silentAfter(t, changes)
}

// A caller that gives up and comes again waits for the list that is under way.
func TestWidenAgain(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, _, _ := serving(t, watchList, body("a", 1))
		i.Keep(object.Identity(), nil)
		run(t, s)
		awaitSynced(t, i)
		server.AwaitWatches(pods, 1)
		release := server.HoldLists()
		defer release()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 3 {
			if err := i.Widen(gone, specV); !errors.Is(err, context.Canceled) {
				t.Fatalf("while the server does not answer: %v", err)
			}
			await(t, "a list", func() bool { return server.Requests().MaxListing > 0 && server.Watches(pods) == 0 })
		}
		release()
		if err := i.Widen(t.Context(), specV); err != nil {
			t.Fatal(err)
		}
		if err := i.Widen(t.Context(), specV); err != nil { // it has it already
			t.Fatal(err)
		}
		if n := i.Stats().Lists; n != 2 {
			t.Errorf("%d lists, want 2", n)
		}
	})
}

// Calls that follow each other soon are no trouble: nothing waits, and nothing is reported.
func TestWidenOften(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, _, lines := serving(t, watchList, body("a", 1))
		i.Keep(object.Identity(), nil)
		run(t, s)
		awaitSynced(t, i)
		for n := range 6 {
			more := new(object.Paths)
			more.Add("spec", fmt.Sprint("f", n))
			if err := i.Widen(t.Context(), more); err != nil {
				t.Fatal(err)
			}
		}
		server.AwaitWatches(pods, 1)
		delay := func(p *pace) time.Duration {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.delay
		}
		if delay(&i.relist)+delay(&i.watches.pace) > 0 || lines.count("WARN") > 0 {
			t.Errorf("the next list waits %v, the next watch %v", delay(&i.relist), delay(&i.watches.pace))
		}
	})
}

// If the server refuses the list at the version that the informer has reached, or loses it between
// two pages, the informer never goes back to an earlier state.
func TestWidenIsRefused(t *testing.T) {
	t.Parallel()
	expired := &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}
	for name, c := range map[string]struct {
		refuses string // of the query
		status  *metav1.Status
	}{
		"expired":                   {"resourceVersionMatch=Exact", expired},
		"expired between two pages": {"continue=", expired},
		"bad request": {"resourceVersionMatch=Exact",
			&metav1.Status{Status: metav1.StatusFailure, Code: 400, Reason: metav1.StatusReasonBadRequest}},
		"invalid": {"resourceVersionMatch=Exact",
			&metav1.Status{Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid}},
		"not reached yet": {"resourceVersionMatch=Exact", &metav1.Status{
			Status: metav1.StatusFailure, Code: 504, Reason: metav1.StatusReasonTimeout,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, watchList bool) {
				const objects = 600 // two pages
				server, s, i, e, _ := serving(t, watchList)
				for n := range objects {
					server.Apply(pods, body(fmt.Sprint("o", n), 1))
				}
				i.Keep(object.Identity(), nil)
				run(t, s)
				awaitSynced(t, i)
				server.AwaitWatches(pods, 1)
				var refused atomic.Bool
				server.Fail(func(r *http.Request) *metav1.Status {
					if strings.Contains(r.URL.RawQuery, c.refuses) && !refused.Swap(true) {
						server.Apply(pods, body("o7", 2))
						server.Apply(pods, body("o7", 3))
						return c.status
					}
					if q := r.URL.Query(); refused.Load() && q.Get("resourceVersion") == "0" {
						t.Errorf("the informer asks for any state: %s", r.URL.RawQuery)
					}
					return nil
				})
				if err := i.Widen(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if !refused.Load() {
					t.Error("nothing was refused")
				}
				if o, ok := i.cache.get("shop", "o7"); !ok || version(o) != "3" {
					t.Errorf("the cache has %s", version(o))
				}
				e.silentAfter(t, objects+1)
			})
		})
	}
}

// silentAfter checks that exactly n deltas have come.
func (e *ear) silentAfter(t testing.TB, n int) {
	t.Helper()
	if heard, _ := e.all(); len(heard) != n {
		t.Errorf("%d deltas, want %d", len(heard), n)
	}
}
