package source

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
	"github.com/informd/informd/integration/apistub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	pods    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// patience is how long a test waits for something that must happen. Only a failing test uses it up.
const patience = 2 * time.Minute

// body returns a namespaced object in state v.
func body(name string, v int) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"v":%d}}`, name, v)
}

// newInformers returns Informers of a server with short pauses, and their log.
func newInformers(t testing.TB, config *rest.Config, o Options) (*Informers, *log) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lines := &log{}
	if o.GoneAfter == 0 {
		o.GoneAfter = 50 * time.Millisecond
	}
	o.Logger = slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s, err := New(config, client, disco, o)
	if err != nil {
		t.Fatal(err)
	}
	s.tuning.pause, s.tuning.maxPause, s.tuning.unreachablePause = 5*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	s.tuning.poll, s.served.fresh = 10*time.Millisecond, 0
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("\n" + lines.String())
		}
	})
	return s, lines
}

// run runs Informers until the test ends, or until stop is called. stop returns when Run has
// returned.
func run(t testing.TB, s *Informers) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("Run does not return")
		}
	})
	t.Cleanup(stop)
	return stop
}

// log is a log that tests can read.
type log struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

func (l *log) count(text string) int { return strings.Count(l.String(), text) }

// consumer is a Consumer that gets only changes. It gets an object that came back only if that has
// changed.
type consumer func(d delta.Delta, tree any)

func (c consumer) Take(s Step) {
	if s.Delta.Object == nil ||
		s.Saved != nil && s.Delta.Type == delta.Synced && s.Saved.ResourceVersion() == s.Delta.Object.ResourceVersion() {
		return
	}
	c(s.Delta, s.Tree)
}

func (consumer) CaughtUp(iter.Seq[*object.Object]) {}

// ear is a consumer that records its deltas.
type ear struct {
	mu    sync.Mutex
	heard []delta.Delta
	news  chan struct{} // closed and replaced at each delta
}

func newEar() *ear { return &ear{news: make(chan struct{})} }

func (e *ear) hear(d delta.Delta, _ any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, d)
	close(e.news)
	e.news = make(chan struct{})
}

func (e *ear) all() ([]delta.Delta, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]delta.Delta(nil), e.heard...), e.news
}

// expectAll is expect for deltas in any order.
func (e *ear) expectAll(t testing.TB, want ...string) {
	t.Helper()
	await(t, strings.Join(want, ", "), func() bool { heard, _ := e.all(); return len(heard) >= len(want) })
	e.mu.Lock()
	slices.SortFunc(e.heard[:len(want)], func(a, b delta.Delta) int {
		return strings.Compare(words([]delta.Delta{a})[0], words([]delta.Delta{b})[0])
	})
	e.mu.Unlock()
	want = slices.Sorted(slices.Values(want))
	e.expect(t, want...)
}

// expect waits for as many further deltas as want has, and compares them.
func (e *ear) expect(t testing.TB, want ...string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		heard, news := e.all()
		if len(heard) >= len(want) {
			got := words(heard[:len(want)])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("heard something else (-want +got):\n%s", diff)
			}
			e.mu.Lock()
			e.heard = e.heard[len(want):]
			e.mu.Unlock()
			return
		}
		select {
		case <-news:
		case <-deadline:
			t.Fatalf("waited for %v, heard %v", want, words(heard))
		}
	}
}

// silent checks that no further deltas came.
func (e *ear) silent(t testing.TB) {
	t.Helper()
	if heard, _ := e.all(); len(heard) > 0 {
		t.Fatalf("heard %v too", words(heard))
	}
}

// words describes deltas: type, name, v of the old and the new state, and whether it is a resync.
func words(all []delta.Delta) []string {
	out := []string{}
	for _, d := range all {
		text := d.Type.String() + " " + d.Object.Name() + " "
		if d.Type == delta.Updated {
			text += version(d.Old) + "→"
		}
		text += version(d.Object)
		if d.Round != 0 {
			text += " again"
		}
		out = append(out, text)
	}
	return out
}

var specV = func() *object.Paths {
	p := new(object.Paths)
	p.Add("spec", "v")
	return p
}()

func version(o *object.Object) string { return versionIn(o.Decode(specV)) }

func versionIn(tree any) string {
	fields, _ := tree.(map[string]any)
	spec, _ := fields["spec"].(map[string]any)
	return fmt.Sprint(spec["v"])
}

// await waits for a condition that comes true without a delta.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func awaitSynced(t testing.TB, informers ...*Informer) {
	t.Helper()
	for _, i := range informers {
		await(t, i.Selection().String()+" has synced", i.HasSynced)
	}
}

func awaitState(t testing.TB, i *Informer, want State) {
	t.Helper()
	deadline := time.After(patience)
	for {
		state, reason, _, _, changed := i.health.read()
		if state == want {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%v, because of %q; want %v", state, reason, want)
		}
	}
}

// serving returns a server of pods and an informer that follows it, with an ear.
func serving(t testing.TB, watchList bool, objects ...string) (*apistub.Server, *Informers, *Informer, *ear, *log) {
	t.Helper()
	server := apistub.New(t)
	server.SetWatchList(watchList)
	server.Serve(pods, "Pod", true)
	for _, o := range objects {
		server.Apply(pods, o)
	}
	s, lines := newInformers(t, server.Config(), Options{})
	i := s.Informer(Selection{Resource: pods})
	e := newEar()
	i.Consume(consumer(e.hear))
	return server, s, i, e, lines
}

// modes runs a test against a server with WatchList, and against one without.
func modes(t *testing.T, test func(t *testing.T, watchList bool)) {
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("WatchList=%v", watchList), func(t *testing.T) {
			t.Parallel()
			test(t, watchList)
		})
	}
}

func (consumer) Tick(time.Time, func(string) *object.Object) (again time.Time) { return again }

func (consumer) Round(timing.Timetable, int64, bool) {}
func (consumer) Holds(timing.Timetable, string) bool { return false }
func (consumer) Handed(timing.Timetable)             {}
