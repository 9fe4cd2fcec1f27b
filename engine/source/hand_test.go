package source

import (
	"fmt"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/delta"
)

// offline returns Informers that have no server.
func offline(t *testing.T) *Informers {
	t.Helper()
	config := &rest.Config{Host: "https://nobody.invalid"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(config, client, discovery.NewDiscoveryClientForConfigOrDie(config), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inHand returns an informer with its Hand, and what its consumer hears and records.
func inHand(t *testing.T, saved Saved) (*Informer, *Hand, *ear, *cut) {
	t.Helper()
	i := offline(t).Informer(Selection{Resource: pods})
	e := newEar()
	c := newCut(consumer(e.hear))
	i.Consume(c)
	i.Restore(saved)
	for _, o := range saved.Objects {
		c.objects[delta.KeyOf(o)] = o
	}
	return i, i.Hand(), e, c
}

// podAtVersion returns an object in state v at a resourceVersion.
func podAtVersion(name string, v, rv int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":%q,"uid":"of %s","resourceVersion":"%d"},"spec":{"v":%d}}`, name, name, rv, v)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHandListsAndWatches(t *testing.T) {
	t.Parallel()
	i, h, e, c := inHand(t, Saved{})
	if h.Position() != "" {
		t.Error("an informer without a saved state wants to resume")
	}
	must(t, h.List("10", [][]byte{podAtVersion("b", 1, 9), podAtVersion("a", 1, 8)}))
	e.expect(t, "synced b 1", "synced a 1")
	if !i.HasSynced() || c.version != "10" {
		t.Errorf("after its list: synced %v, position %q", i.HasSynced(), c.version)
	}
	must(t, h.Apply(podAtVersion("c", 1, 11)))
	must(t, h.Apply(podAtVersion("c", 2, 12)))
	must(t, h.Delete(podAtVersion("a", 1, 13)))
	e.expect(t, "added c 1", "updated c 1→2", "deleted a 1")
	if got := i.cache.list("", nil); len(got) != 2 || c.version != "13" {
		t.Errorf("the cache has %d objects, position %q", len(got), c.version)
	}
	must(t, h.List("20", [][]byte{podAtVersion("b", 2, 15)})) // c is gone, and d came and went
	e.expect(t, "updated b 1→2", "deleted c 2")
	if err := h.Apply([]byte(`{`)); err == nil {
		t.Error("half an object was read")
	}
}

func TestHandResumes(t *testing.T) {
	t.Parallel()
	_, hand, ear, first := inHand(t, Saved{})
	must(t, hand.List("10", [][]byte{podAtVersion("a", 1, 8)}))
	ear.expect(t, "synced a 1")

	i, h, e, c := inHand(t, first.saved())
	if h.Position() != "10" {
		t.Fatalf("it resumes from %q", h.Position())
	}
	h.Resume()
	must(t, h.Apply(podAtVersion("a", 2, 12)))
	if i.HasSynced() {
		t.Error("it has synced before the watch has caught up")
	}
	if h.CaughtUp("14") {
		t.Error("a list is asked for")
	}
	e.expect(t, "updated a 1→2")
	if !i.HasSynced() || c.version != "14" {
		t.Errorf("after it caught up: synced %v, position %q", i.HasSynced(), c.version)
	}

	_, h, e, _ = inHand(t, c.saved()) // the history is lost
	must(t, h.List("20", [][]byte{podAtVersion("b", 1, 16)}))
	e.expect(t, "added b 1", "deleted a 2")
}

// An informer with a fixed object is another one than that of the same selection. Its object is
// there at once, also in the next run.
func TestFixedInformer(t *testing.T) {
	t.Parallel()
	s := offline(t)
	sel := Selection{Resource: pods, FieldSelector: "metadata.name=a"}
	watching, fixed := s.Informer(sel), s.Fixed(sel, podAtVersion("a", 1, 1))
	if s.Informer(sel) != watching || watching.IsFixed() || !fixed.IsFixed() {
		t.Error("the informers are mixed up")
	}
	e := newEar()
	c := newCut(consumer(e.hear))
	fixed.Consume(c)
	fixed.Hand()
	e.expect(t, "synced a 1")
	if len(fixed.cache.list("", nil)) != 1 || !fixed.HasSynced() || watching.HasSynced() {
		t.Error("it has not synced with its one object")
	}
	next, e := s.Fixed(sel, podAtVersion("a", 1, 1)), newEar()
	next.Consume(consumer(e.hear))
	next.Restore(c.saved())
	next.Hand()
	if heard, _ := e.all(); len(heard) > 0 || len(next.cache.list("", nil)) != 1 || !next.HasSynced() {
		t.Errorf("it does not go on with its one object: heard %v", heard)
	}
}
