package source

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/integration/apistub"
)

// A server may refuse to resume a watch before it has sent the missed changes. The informer has not
// caught up then, and still holds objects of which only the kept fields were saved.
func TestRefusedResumedWatchHasNotCaughtUp(t *testing.T) {
	t.Parallel()
	const refusal = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",` +
		`"reason":"TooManyRequests","message":"later","code":429}}` + "\n"
	refuse := func(t *testing.T, server *apistub.Server, saved Saved) (*Informer, *cut) {
		server.Serve(widgets, "Widget", true)
		server.Apply(widgets, body("w", 1)) // as long as no bookmark comes, the server may have more pods to tell of
		s, i, _, c, _ := next(t, server, saved)
		s.tuning.still.silence, s.tuning.still.hush = patience, patience
		await(t, "the end of the first run's watch", func() bool { return server.Watches(pods) == 0 })
		run(t, s)
		server.AwaitWatches(pods, 1)
		server.Garbage(pods, refusal)
		await(t, "another watch", func() bool { return i.Stats().Watches == 2 })
		server.AwaitWatches(pods, 1)
		if i.HasSynced() {
			t.Error("the informer has synced as soon as the next watch is open")
		}
		server.Apply(pods, body("d", 1))
		return i, c
	}
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		server, saved := firstRun(t, true)
		i, c := refuse(t, server, saved)
		awaitSynced(t, i)
		if n := len(c.saved().Objects); n != 4 {
			t.Errorf("the informer has synced, and the consumer knows of %d objects", n)
		}
	})
	t.Run("parts", func(t *testing.T) {
		t.Parallel()
		server, saved := firstRun(t, true)
		for n, o := range saved.Objects {
			saved.Objects[n] = object.FromIdentity(o.Namespace(), o.Name(), o.UID(), o.ResourceVersion())
		}
		saved.Partial, saved.Follow = true, true
		i, _ := refuse(t, server, saved)
		awaitSynced(t, i)
		for _, o := range i.cache.list("", nil) {
			if version(o) != "1" {
				t.Errorf("the informer has synced, and the cache has a part of %s", o.Name())
			}
		}
	})
}

// A server may refuse every watch of the version that it has just listed. The informer then lists
// with growing pauses.
func TestRelistsInARowSlowDown(t *testing.T) {
	t.Parallel()
	server, s, i, _, _ := serving(t, false, body("a", 1))
	server.Fail(func(r *http.Request) *metav1.Status {
		if q := r.URL.Query(); q.Get("watch") == "" || q.Get("sendInitialEvents") == "true" {
			return nil
		}
		return &metav1.Status{Status: "Failure", Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old"}
	})
	run(t, s)
	await(t, "a delay that has doubled", func() bool {
		i.relist.mu.Lock()
		defer i.relist.mu.Unlock()
		return i.relist.delay >= s.tuning.maxPause && i.relist.short >= 2
	})
}
