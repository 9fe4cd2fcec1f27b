package action

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/plugins/handler"
)

// notebook is a state's notes of no rule, with a clock for those who keep them.
type notebook struct {
	t       testing.TB
	notes   map[string][]byte
	now     time.Time
	watched []schema.GroupVersionResource
	within  bool
	puts    int
}

func newNotebook(t testing.TB) *notebook {
	return &notebook{t: t, notes: make(map[string][]byte), now: time.Now(), watched: []schema.GroupVersionResource{pods}}
}

func (b *notebook) Begin() (end func()) {
	b.within = true
	return func() { b.within = false }
}

func (b *notebook) Put(rule, name string, value []byte) {
	b.check(rule)
	b.puts++
	b.notes[name] = value
}

func (b *notebook) Delete(rule, name string) {
	b.check(rule)
	delete(b.notes, name)
}

func (b *notebook) check(rule string) {
	b.t.Helper()
	if !b.within || rule != "" {
		b.t.Errorf("a note of rule %q, within a cut: %v", rule, b.within)
	}
}

// start returns the Writes of the next process.
func (b *notebook) start() *Writes {
	w := NewWrites()
	w.Keep(Keeping{Notes: b, Now: func() time.Time { return b.now }, Watched: func() iter.Seq[schema.GroupVersionResource] {
		return slices.Values(b.watched)
	}})
	defer b.Begin()()
	w.Restore(maps.All(maps.Clone(b.notes)))
	return w
}

func (w *Writes) make(rule, from, to string) { w.Begin(pods, web0, rule, Cause{})(from, to) }

// The next process knows what informd wrote, for whom and because of what.
func TestWritesAreKept(t *testing.T) {
	b := newNotebook(t)
	w := b.start()
	w.make("r", "1", "2")
	w.make("r", "2", "3")
	w.Begin(pods, web0, "q", Cause{Depth: 2, Chain: []string{"r", "q"}})("3", "4")
	w.make("r", "4", DeletionOf("u"))
	w = b.start()
	for change, want := range map[string]bool{
		ChangeOf("1", "2"): true, ChangeOf("1", "3"): true, DeletionOf("u"): true,
		ChangeOf("0", "2"): false, ChangeOf("2", "4"): false, ChangeOf("3", "4"): false, DeletionOf("v"): false,
	} {
		if got := w.Made(pods, web0, "r", change); got != want {
			t.Errorf("Made(%q) is %v, want %v", change, got, want)
		}
	}
	got, _ := w.Of(pods, web0, "4")
	if want := (Write{"q", 3, []string{"q", "r", "q"}}); got.Rule != want.Rule || got.Depth != want.Depth || !slices.Equal(got.Chain, want.Chain) {
		t.Errorf("%+v made it, want %+v", got, want)
	}
	cause, known := w.causeOf(t.Context(), &handler.Event{
		Event: handler.Updated, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", ResourceVersion: "4",
	})
	if !known || cause.Depth != 3 {
		t.Errorf("the cause is %+v, %v", cause, known)
	}
	if got := w.onward(pods, web0, "r", "1"); got != "3" {
		t.Errorf("onward leads to %s", got)
	}
	w.make("r", "5", "6") // it goes on
	if w = b.start(); !w.Made(pods, web0, "r", ChangeOf("1", "2")) || !w.Made(pods, web0, "r", ChangeOf("5", "6")) {
		t.Error("a third process does not know what two before it wrote")
	}
}

// Rules that chase each other stay slowed in the next process.
func TestChasesGoOnAfterARestart(t *testing.T) {
	b := newNotebook(t)
	b.start().Begin(pods, web0, "q", Cause{Depth: slowDepth, Chain: []string{"r", "q"}})("3", "4")
	now := func() time.Time { return b.now }
	breaker := NewBreaker(b.start(), now, nil)
	ev := &handler.Event{Event: handler.Updated, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", ResourceVersion: "4"}
	if delay := breaker.Delay(t.Context(), "r", ev); delay < firstSlow {
		t.Errorf("the event waits for %v", delay)
	}
	if breaker.Chasing("r", func(string) bool { return true }) == "" {
		t.Error("nothing is said of it")
	}
}

// A write is recorded only if it made something, and if informd watches such objects.
func TestWritesThatAreNotKept(t *testing.T) {
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	newer := schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	events := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	b := newNotebook(t)
	w := b.start()
	w.make("r", "1", "")
	w.make("r", "1", "1")
	w.Begin(nodes, web0, "r", Cause{})("1", "2")
	w.Begin(events, web0, "r", Cause{})("", "2")
	if len(b.notes) > 0 {
		t.Errorf("%d notes", len(b.notes))
	}
	b.watched = append(b.watched, newer)
	w.Begin(events, web0, "r", Cause{})("", "3") // the same objects
	if len(b.notes) != 1 {
		t.Errorf("%d notes of what is watched by another name", len(b.notes))
	}
	if _, known := b.start().Of(newer, web0, "3"); !known {
		t.Error("the write is not known by the other name")
	}
}

// The state has a bounded number of writes, and of those the newest.
func TestKeptWritesAreBounded(t *testing.T) {
	b := newNotebook(t)
	w := b.start()
	key := func(n int) delta.Key { return delta.Key{Name: fmt.Sprint(n)} }
	for n := range maxKept + 10 {
		if n == maxKept/2 {
			w = b.start()
		}
		w.Begin(pods, key(n), "r", Cause{})("1", "2")
	}
	if len(b.notes) != maxKept || len(w.kept.notes) > maxKept {
		t.Errorf("%d notes, %d known", len(b.notes), len(w.kept.notes))
	}
	w = b.start()
	for n, want := range map[int]bool{0: false, 9: false, 10: true, maxKept + 9: true} {
		if _, known := w.Of(pods, key(n), "2"); known != want {
			t.Errorf("write %d is known: %v", n, known)
		}
	}
}

// A write is forgotten once informd has run for a while since. Time in which it does not run leaves
// what was written last, however the clock goes.
func TestKeptWritesAge(t *testing.T) {
	for name, c := range map[string]struct {
		running, stopped time.Duration // after the first write; after the second one
		want             bool          // the first one is known
	}{
		"soon":                     {time.Minute, 0, true},
		"after long":               {keptFor, 0, false},
		"stopped for long":         {time.Minute, 1000 * time.Hour, true},
		"the clock is set back":    {-1000 * time.Hour, 0, true},
		"set back while it stands": {time.Minute, -1000 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newNotebook(t)
			w := b.start()
			w.make("r", "1", "2")
			b.now = b.now.Add(c.running)
			w.make("r", "3", "4")
			if has := len(b.notes) == 2; has != c.want {
				t.Errorf("%d notes", len(b.notes))
			}
			b.now = b.now.Add(c.stopped)
			w = b.start()
			if got := w.Made(pods, web0, "r", ChangeOf("1", "2")); got != c.want {
				t.Errorf("the first write is known: %v", got)
			}
			if !w.Made(pods, web0, "r", ChangeOf("3", "4")) {
				t.Error("the second write is not known")
			}
			b.now = b.now.Add(keptFor)
			w.make("r", "5", "6")
			if len(b.notes) != 1 {
				t.Errorf("%d notes in the end", len(b.notes))
			}
		})
	}
}

// What counts is how long all processes have run together.
func TestKeptWritesCountTimeThatInformdRuns(t *testing.T) {
	b := newNotebook(t)
	for range 3 {
		b.start().make("r", "1", "2")
		b.now = b.now.Add(100 * time.Hour)
	}
	if len(b.notes) != 3 {
		t.Errorf("%d notes", len(b.notes))
	}
	w := b.start()
	b.now = b.now.Add(keptFor - time.Second)
	w.make("r", "2", "3")
	if len(b.notes) != 4 {
		t.Errorf("%d notes just before they are too old", len(b.notes))
	}
	b.now = b.now.Add(2 * time.Second)
	w.make("r", "3", "4")
	if len(b.notes) != 2 {
		t.Errorf("%d notes just after that", len(b.notes))
	}
}

// What is damaged, or written by another informd, is dropped. Notes of others stay.
func TestKeptWritesThatCannotBeRead(t *testing.T) {
	b := newNotebook(t)
	w := b.start()
	w.make("r", "1", "2")
	w.make("r", "2", "3")
	b.notes[keptNote+"0"] = []byte{200, 1, 2}
	b.notes[keptNote+"zz"] = records.AppendWrite(nil, &records.Write{Resource: "pods", To: "9", Chain: []string{"r"}})
	b.notes["occasion"] = []byte("7")
	w = b.start()
	if _, known := w.Of(pods, web0, "3"); !known {
		t.Error("the sound write is not known")
	}
	if _, known := w.Of(pods, delta.Key{}, "9"); known {
		t.Error("a write under another name is known")
	}
	if got := slices.Sorted(maps.Keys(b.notes)); !slices.Equal(got, []string{"occasion", keptNote + "1"}) {
		t.Errorf("notes %q", got)
	}
}

// Without Keep nothing is recorded.
func TestWritesWithoutState(t *testing.T) {
	w := NewWrites()
	w.make("r", "1", "2")
	if len(w.kept.notes) > 0 {
		t.Error("a write is kept")
	}
}

// BenchmarkKeptWrite measures what the state costs one write. The bytes are those of the note.
func BenchmarkKeptWrite(b *testing.B) {
	name := strings.Repeat("n", 40)
	for _, isKept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", isKept), func(b *testing.B) {
			book, w := newNotebook(b), NewWrites()
			if isKept {
				w = book.start()
			}
			b.ReportAllocs()
			bytes, n := 0, 0
			for b.Loop() {
				at := delta.Key{Namespace: "default", Name: name}
				w.Begin(pods, at, "annotate-the-pods", Cause{})(fmt.Sprint(100000+n), fmt.Sprint(100001+n))
				n++
			}
			for name, value := range book.notes {
				bytes += len(records.AppendNote(nil, records.NoteID{Name: name}, value)) + len(records.NoteKey(records.NoteID{Name: name}))
			}
			b.ReportMetric(float64(bytes)/float64(max(len(book.notes), 1)), "B/note")
		})
	}
}
