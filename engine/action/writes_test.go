package action

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

var (
	pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	web0 = delta.Key{Namespace: "shop", Name: "web-0"}
)

func TestOwnChangesComeFromRequests(t *testing.T) {
	for name, c := range map[string]struct{ from, to, ask, rule string }{
		"a change":                           {"4", "5", "5", "r"},
		"a creation":                         {"", "5", "5", "r"},
		"what changed nothing":               {"5", "5", "5", ""},
		"what failed, or is unknown":         {"4", "", "", ""},
		"the version that it was made of":    {"4", "5", "4", ""},
		"a deletion":                         {"4", DeletionOf("u"), DeletionOf("u"), "r"},
		"of another uid":                     {"4", DeletionOf("u"), DeletionOf("v"), ""},
		"a deletion, asked for by a version": {"4", DeletionOf("4"), "4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWrites()
			end := w.Begin(pods, web0, "r", Cause{})
			if _, known := w.Of(pods, web0, c.ask); known {
				t.Error("Of knows the version before the request is answered")
			}
			end(c.from, c.to)
			if got, known := w.Of(pods, web0, c.ask); got.Rule != c.rule || known != (c.rule != "") {
				t.Errorf("Of: %v %v, want %q", got, known, c.rule)
			}
			if _, known := w.Of(pods, delta.Key{Name: "web-0"}, c.ask); known {
				t.Error("Of knows the version of another object")
			}
		})
	}
}

// The watch may show only the outcome of several changes. It is the rule's own if all of them are.
func TestMergedOwnChanges(t *testing.T) {
	w := NewWrites()
	for _, c := range []struct{ rule, from, to string }{
		{"r", "", "1"}, {"r", "1", "2"}, {"r", "3", "4"}, {"r", "4", "5"}, {"q", "5", "6"}, {"r", "6", "7"}, {"r", "7", DeletionOf("u")},
	} {
		w.Begin(pods, web0, c.rule, Cause{})(c.from, c.to)
	}
	for change, want := range map[string]bool{
		ChangeOf("", "1"): true, ChangeOf("1", "2"): true, ChangeOf("", "2"): true, ChangeOf("3", "4"): true, ChangeOf("3", "5"): true,
		ChangeOf("2", "4"): false, // somebody else made 3
		ChangeOf("", "4"):  false, ChangeOf("1", "5"): false,
		ChangeOf("5", "6"): false, ChangeOf("5", "7"): false, ChangeOf("6", "7"): true, // another rule made 6
		ChangeOf("4", "3"): false, ChangeOf("2", "3"): false, ChangeOf("", ""): false,
		DeletionOf("u"): true, DeletionOf("v"): false, ChangeOf("7", "8"): false,
	} {
		if got := w.Made(pods, web0, "r", change); got != want {
			t.Errorf("Made(%q) is %v, want %v", change, got, want)
		}
	}
	if w.Made(pods, web0, "q", ChangeOf("6", "7")) || w.Made(pods, delta.Key{Name: "other"}, "r", ChangeOf("1", "2")) {
		t.Error("Made is true for another rule, or for another object")
	}
}

func TestSameObjectInAnotherAPIVersion(t *testing.T) {
	w := NewWrites()
	w.Begin(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, web0, "r", Cause{})("1", "2")
	if _, known := w.Of(schema.GroupVersionResource{Group: "apps", Version: "v2", Resource: "deployments"}, web0, "2"); !known {
		t.Error("another version of the API must be the same object")
	}
	if _, known := w.Of(schema.GroupVersionResource{Group: "extensions", Version: "v1", Resource: "deployments"}, web0, "2"); known {
		t.Error("another API group must be another object")
	}
	w.Begin(schema.GroupVersionResource{Version: "v1", Resource: "events"}, web0, "r", Cause{})("", "3")
	if _, known := w.Of(schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, web0, "3"); !known {
		t.Error("an Event must be the same object in both of its groups")
	}
}

func TestWritingUntilAllWritesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWrites()
		first, second := w.Begin(pods, web0, "a", Cause{}), w.Begin(pods, web0, "b", Cause{})
		waited := make(chan struct{})
		go func() {
			w.Wait(t.Context(), pods, web0)
			close(waited)
		}()
		stopped, stop := context.WithCancel(t.Context())
		stop()
		w.Wait(stopped, pods, web0) // returns at once
		first("", "")
		synctest.Wait()
		for rule, want := range map[string]bool{"a": false, "b": true, "": true, "c": false} {
			if w.Writing(pods, web0, rule, math.MaxUint64) != want {
				t.Errorf("Writing(%q) is %v", rule, !want)
			}
		}
		select {
		case <-waited:
			t.Error("Wait returned while a request was under way")
		default:
		}
		// Wait does not wait for it, so an object with constant writes delays nobody
		third := w.Begin(pods, web0, "c", Cause{})
		second("1", "2")
		<-waited
		if !w.Writing(pods, web0, "c", math.MaxUint64) {
			t.Error("Writing is false for a request that began later and has not ended")
		}
		third("", "")
		if w.Writing(pods, web0, "", math.MaxUint64) {
			t.Error("Writing is true while no request is under way")
		}
		w.Wait(t.Context(), pods, web0)
	})
}

func TestWritesWithoutVersionAreForgotten(t *testing.T) {
	w := NewWrites()
	for i := range 100 {
		w.Begin(pods, delta.Key{Name: fmt.Sprint(i)}, "r", Cause{})("", "")
	}
	if len(w.objects) != 0 || w.oldest.Len() != 0 {
		t.Errorf("Writes holds %d objects and orders %d, want none", len(w.objects), w.oldest.Len())
	}
}

func TestWritesAreBounded(t *testing.T) {
	w := NewWrites()
	under := w.Begin(pods, delta.Key{Name: "under way"}, "r", Cause{}) // the oldest write of all
	for i := range 100 {
		w.Begin(pods, web0, "r", Cause{})(fmt.Sprint(i), fmt.Sprint(i+1))
	}
	for i, want := range map[int]bool{100: true, 100 - maxVersions + 1: true, 100 - maxVersions: false} {
		if _, known := w.Of(pods, web0, fmt.Sprint(i)); known != want {
			t.Errorf("version %d is known: %v", i, known)
		}
	}
	for i := range maxWritten {
		w.Begin(pods, delta.Key{Name: fmt.Sprint(i)}, "r", Cause{})("", "1")
	}
	if len(w.objects) != maxWritten || w.oldest.Len() != maxWritten {
		t.Errorf("Writes holds %d objects and orders %d, want %d", len(w.objects), w.oldest.Len(), maxWritten)
	}
	if _, known := w.Of(pods, web0, "100"); known {
		t.Error("Writes still knows the object that was written first")
	}
	if !w.Writing(pods, delta.Key{Name: "under way"}, "r", math.MaxUint64) {
		t.Error("Writes forgot a request that is under way")
	}
	// A few objects with many writes take no more memory than many objects.
	for i := range maxInAll {
		w.Begin(pods, delta.Key{Name: fmt.Sprint(i % 8192)}, "r", Cause{})("", fmt.Sprint("v", i))
	}
	inAll := 0
	for _, o := range w.objects {
		inAll += len(o.versions)
	}
	if inAll != w.inAll || inAll > maxInAll+1 || inAll < maxInAll-maxVersions {
		t.Errorf("%d versions, %d counted, want about %d", inAll, w.inAll, maxInAll)
	}
	under("", "2")
	if _, known := w.Of(pods, delta.Key{Name: "under way"}, "2"); !known {
		t.Error("Writes forgot the version that a long request made")
	}
}

func TestOnwardFollowsOwnChangesOnly(t *testing.T) {
	w := NewWrites()
	w.Begin(pods, web0, "r", Cause{})("1", "2")
	w.Begin(pods, web0, "r", Cause{})("2", "3")
	w.Begin(pods, web0, "other", Cause{})("3", "4")
	w.Begin(pods, web0, "r", Cause{})("4", "5")
	w.Begin(pods, web0, "r", Cause{})("7", "8") // it follows somebody else's change
	for from, want := range map[string]string{"1": "3", "2": "3", "3": "3", "4": "5", "5": "5", "7": "8", "9": "9"} {
		if got := w.onward(pods, web0, "r", from); got != want {
			t.Errorf("from %s: %s, want %s", from, got, want)
		}
	}
}

func TestDepthCountsOwnChangesInARow(t *testing.T) {
	w := NewWrites()
	ev := &handler.Event{Event: handler.Updated, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", UID: "u", ResourceVersion: "0"}
	if cause, known := w.causeOf(t.Context(), ev); known || cause.Depth != 0 {
		t.Fatalf("somebody else's change: %v %v", cause, known)
	}
	rules := []string{"ping", "pong"}
	for i := range 20 {
		cause, _ := w.causeOf(t.Context(), ev)
		to := fmt.Sprint(i + 1)
		w.Begin(pods, web0, rules[i%2], cause)(ev.ResourceVersion, to)
		got, known := w.Of(pods, web0, to)
		if !known || got.Depth != i+1 || got.Rule != rules[i%2] || got.Chain[0] != got.Rule || len(got.Chain) != min(i+1, maxChain) {
			t.Fatalf("change %d: %+v %v", i+1, got, known)
		}
		ev.ResourceVersion = to
	}
	ev.Event = handler.Synced
	if _, known := w.causeOf(t.Context(), ev); known {
		t.Error("a resync must have no cause")
	}
	ev.Event = handler.Deleted
	w.Begin(pods, web0, "ping", Cause{Depth: 7})("20", DeletionOf("u"))
	if cause, known := w.causeOf(t.Context(), ev); !known || cause.Depth != 8 {
		t.Errorf("informd's own deletion: got cause %+v, known %v", cause, known)
	}
}

// Rules that chase each other over one object are not hidden by the other changes of a group.
func TestDeepestCauseOfAGroup(t *testing.T) {
	w := NewWrites()
	ev := handler.Event{Event: handler.Updated, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", ResourceVersion: "2"}
	w.Begin(pods, web0, "ping", Cause{Depth: 7})("1", "2")
	other := ev
	other.Name, other.ResourceVersion = "web-1", "3" // somebody else's change
	newest := other
	newest.Items = []handler.Event{other, ev, other}
	if cause, known := w.causeOf(t.Context(), &newest); !known || cause.Depth != 8 || !slices.Equal(cause.Chain, []string{"ping"}) {
		t.Errorf("got cause %+v, known %v", cause, known)
	}
	w.Begin(pods, delta.Key{Namespace: "shop", Name: "web-1"}, "pong", Cause{Depth: 2})("2", "3")
	if cause, _ := w.causeOf(t.Context(), &newest); cause.Depth != 8 {
		t.Errorf("got the cause of another item: %+v", cause)
	}
}

// All causes that follow from one share its chain, so write must not append in place.
func TestChainsStayApart(t *testing.T) {
	shared := make([]string, 1, 8)
	shared[0] = "first"
	a, b := Cause{1, shared}.write("a"), Cause{1, shared}.write("b")
	if !slices.Equal(a.Chain, []string{"a", "first"}) || !slices.Equal(b.Chain, []string{"b", "first"}) {
		t.Errorf("%v %v", a.Chain, b.Chain)
	}
}

func TestConcurrentWrites(t *testing.T) {
	w := NewWrites()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rule := fmt.Sprint(g)
			for i := range 500 {
				key := delta.Key{Name: fmt.Sprint(i % 7)}
				to := fmt.Sprint(g, ".", i)
				end := w.Begin(pods, key, rule, Cause{})
				if !w.Writing(pods, key, rule, math.MaxUint64) {
					t.Error("Writing is false while a request is under way")
				}
				end("", to)
				if got, known := w.Of(pods, key, to); known && got.Rule != rule {
					t.Errorf("Of says that rule %s made %s, want rule %s", got.Rule, to, rule)
				}
				w.Wait(t.Context(), pods, delta.Key{Name: "other"})
			}
		})
	}
	all.Wait()
	if w.Writing(pods, delta.Key{Name: "0"}, "", math.MaxUint64) {
		t.Error("Writing is true after all requests have ended")
	}
}
