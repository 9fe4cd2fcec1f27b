package source

import (
	"context"
	"errors"
	"iter"
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
		e.expectAll(t, "added d 1", "deleted c <nil>", "updated b <nil>→2")
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
