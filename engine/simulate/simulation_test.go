package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sizes    = "kind: Source, metadata: {name: maps}, spec: {resource: v1/configmaps}"
	recorder = "kind: Handler, metadata: {name: h}, spec: {builtin: log}"
)

func ruleOf(name, spec string) string {
	return fmt.Sprintf("kind: Rule, metadata: {name: %s}, spec: {source: maps, handler: h%s}", name, spec)
}

// compile compiles manifests, each in YAML's flow style and without its apiVersion and braces.
func compile(t testing.TB, manifests ...string) *plan.Plan {
	t.Helper()
	var text strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&text, "---\n{apiVersion: informd.dev/v1alpha1, %s}\n", m)
	}
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(text.String())}})
	p, more := plan.Compile(c)
	for _, m := range append(mistakes, more...) {
		t.Fatal(m)
	}
	return p
}

// bench is a simulation with a short way to write steps and events.
type bench struct {
	*Simulation
	t testing.TB
}

func simulation(t testing.TB, o Options, manifests ...string) *bench {
	t.Helper()
	s, err := New(compile(t, manifests...), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{s, t}
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// put applies a ConfigMap of namespace shop with that size.
func (b *bench) put(name, size string) {
	b.t.Helper()
	b.must(b.Apply("maps", fmt.Appendf(nil, `{"kind":"ConfigMap","metadata":{"namespace":"shop","name":%q},"data":{"size":%q}}`, name, size)))
}

// expectAnyOrder is expect for events in any order.
func (b *bench) expectAnyOrder(d time.Duration, want ...string) {
	b.t.Helper()
	want = slices.Sorted(slices.Values(want))
	got := b.come(d)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("events (-want +got)\n%s", diff)
	}
}

// expect advances the time, and compares the events that come.
func (b *bench) expect(d time.Duration, want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.come(d)); diff != "" {
		b.t.Errorf("events (-want +got)\n%s", diff)
	}
}

// come advances the time, and returns the events that come.
func (b *bench) come(d time.Duration) (got []string) {
	b.t.Helper()
	began := b.Now()
	b.must(b.Advance(d))
	for _, e := range b.Events() {
		got = append(got, text(e, began))
	}
	return got
}

func text(e Event, began time.Time) string {
	s := fmt.Sprintf("%s %s %s", e.Rule, e.Event.Event, e.Event.Name)
	if e.Event.Payload != nil {
		s += " " + string(e.Event.Payload)
	}
	if len(e.Event.Items) > 0 {
		var items []string
		for _, item := range e.Event.Items {
			items = append(items, item.Event+" "+item.Name)
		}
		s += " of " + strings.Join(items, ", ")
	}
	if e.Event.Attempt > 1 {
		s += fmt.Sprintf(" #%d", e.Event.Attempt)
	}
	if after := e.At.Sub(began); after > 0 {
		s += " after " + after.String()
	}
	for _, a := range e.Actions {
		s += fmt.Sprintf(", %s %s", a.Verb, a.Name)
	}
	for _, p := range e.Pruned {
		s += fmt.Sprintf(", prunes %s", p.Resource.Resource)
	}
	if e.Dead != "" {
		s += ", dead: " + e.Dead
	}
	return s
}

func TestChanges(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("all", ""),
		ruleOf("large", `, where: object.data.size == "2", payload: 'now()'`))
	b.put("a", "1")
	b.expect(0, "all added a")
	b.put("a", "2")
	b.expect(time.Hour, "all updated a", `large added a "2026-01-01T00:00:00Z"`)
	b.put("b", "2")
	b.put("b", "1")
	b.must(b.Delete("maps", "shop", "a"))
	b.expect(0, "all added b", `large deleted a "2026-01-01T01:00:00Z"`, "all deleted a")
	if _, ok := b.Get("maps", "shop", "a"); ok {
		t.Error("a exists")
	}
	b.expect(365 * 24 * time.Hour)
}
