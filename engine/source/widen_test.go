package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

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
		if o, _ := i.Get("shop", "a"); version(o) != "<nil>" {
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
			if o, ok := i.Get("shop", name); !ok || version(o) != want {
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
		if o, _ := i.Get("shop", "a"); version(o) != fmt.Sprint(changes) {
			t.Errorf("the cache has %s", version(o))
		}
	})
}
