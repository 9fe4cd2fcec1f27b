package source

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A list under way says how far it is, and how much is left if that is known.
func TestProgress(t *testing.T) {
	i := unconnected(t).Informer(Selection{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}})
	now := i.parent.clock.Now()
	is := func(want string) {
		t.Helper()
		if got := i.progress(now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	is("no objects yet")
	i.counts.objects.Store(7) // restored
	is("7 objects of the last run, catching up with the server")
	i.counts.objects.Store(0)
	i.counts.received.Store(500)
	is("500 objects so far")
	i.counts.left.Store(1500) // as the server says
	is("500 objects so far, about 1500 left")
	i.counts.left.Store(0)
	i.counts.objects.Store(600) // restored
	is("500 objects so far, about 100 left")

	i.health.listing()
	if got := i.Stats().Reason; got != "500 objects so far, about 100 left" {
		t.Errorf("stats: %q", got)
	}
	i.health.listed(600)
	if got := i.Stats().Reason; got != "" {
		t.Errorf("stats once it has synced: %q", got)
	}
}

// The wire counts the objects of a list.
func TestListsAreCounted(t *testing.T) {
	server, all, i, ear, _ := serving(t, false, `{"metadata":{"namespace":"x","name":"a"}}`, `{"metadata":{"namespace":"x","name":"b"}}`)
	_, _ = server, ear
	stop := run(t, all)
	defer stop()
	if !WaitUntilSettled(t.Context(), i) {
		t.Fatal("not settled")
	}
	if got := i.counts.received.Load(); got != 2 {
		t.Errorf("received %d, want 2", got)
	}
}
