package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/simulate"
)

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

const printer = "kind: Handler, metadata: {name: print}, spec: {builtin: log}"

// sources returns manifests with a source of each resource, and a rule that hears of everything.
func sources(resources ...string) []string {
	all := []string{printer}
	for i, r := range resources {
		all = append(all, fmt.Sprintf("kind: Source, metadata: {name: s%d}, spec: {resource: %s}", i, r),
			fmt.Sprintf("kind: Rule, metadata: {name: r%d}, spec: {source: s%d, handler: print}", i, i))
	}
	return all
}

// playAll plays a recording, and returns the events.
func playAll(t testing.TB, p *player, from io.Reader, after time.Duration) (events []string) {
	t.Helper()
	p.came = func(e simulate.Event) {
		events = append(events, fmt.Sprintf("%s %s %s %s", e.At.UTC().Format("15:04:05"), e.Rule, e.Event.Event, e.Event.Name))
	}
	r, err := newReader("file", from)
	if err != nil {
		t.Fatal(err)
	}
	for {
		d, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.read()
		if err == nil {
			err = p.play(l)
		}
		if err != nil {
			t.Fatal(d.mistake("%w", err))
		}
	}
	if err := p.end(time.Time{}, after); err != nil {
		t.Fatal(err)
	}
	return events
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// The files in testdata are as kubectl 1.32 has printed them.
func TestWhatKubectlPrints(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"watch-events.json": { // --watch --output-watch-events
			"12:00:00 r0 synced first", "12:00:00 r0 synced other", "12:00:00 r0 updated first",
			"12:00:00 r0 added second", "12:00:00 r0 deleted second",
		},
		"watch.json": { // --watch, which does not tell a deletion from a change
			"12:00:00 r0 synced first", "12:00:00 r0 synced other", "12:00:00 r0 updated first",
			"12:00:00 r0 added second", "12:00:00 r0 updated second",
		},
		"list.json": {"12:00:00 r0 synced first", "12:00:00 r1 synced s", "12:00:00 r0 synced other"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			f, err := os.Open("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p := &player{plan: compile(t, sources("v1/configmaps", "v1/secrets")...), start: noon}
			if diff := cmp.Diff(want, playAll(t, p, f, 0)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPlayer(t *testing.T) {
	t.Parallel()
	change := func(kind, at, name string, version int) string {
		when := ""
		if at != "" {
			when = `"time":"2026-01-02T` + at + `Z",`
		}
		return fmt.Sprintf(`{"type":%q,%s"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":%q,"uid":"u-%s","resourceVersion":"%d"}}}`,
			kind, when, name, name, version)
	}
	rules := sources("v1/configmaps")
	for _, test := range []struct {
		name  string
		rules []string
		start time.Time
		after time.Duration
		lines []string
		want  []string
	}{
		{name: "nothing"},
		{
			name:  "times that go back count as now",
			lines: []string{change("ADDED", "12:00:00", "a", 1), change("MODIFIED", "12:00:10", "a", 2), change("MODIFIED", "12:00:05", "a", 3), change("MODIFIED", "12:00:11", "a", 4)},
			want:  []string{"12:00:00 r0 synced a", "12:00:10 r0 updated a", "12:00:10 r0 updated a", "12:00:11 r0 updated a"},
		}, {
			name: "times move with --start", start: noon.Add(time.Hour),
			lines: []string{change("ADDED", "12:00:00", "a", 1), change("MODIFIED", "12:00:10", "a", 2)},
			want:  []string{"13:00:00 r0 synced a", "13:00:10 r0 updated a"},
		}, {
			name: "times that begin late", start: noon,
			lines: []string{change("ADDED", "", "a", 1), change("ADDED", "17:00:00", "b", 2), change("MODIFIED", "17:00:10", "b", 3)},
			want:  []string{"12:00:00 r0 synced a", "12:00:00 r0 synced b", "12:00:10 r0 updated b"},
		}, {
			name:  "what comes twice is in the snapshot once",
			lines: []string{change("ADDED", "12:00:00", "a", 1), change("ADDED", "12:00:01", "a", 1), change("ADDED", "12:00:01", "b", 2)},
			want:  []string{"12:00:00 r0 synced a", "12:00:01 r0 added b"},
		}, {
			name:  "a deletion that nobody knows of, and a change of something new",
			lines: []string{change("DELETED", "12:00:00", "x", 1), change("MODIFIED", "12:00:01", "y", 2)},
			want:  []string{"12:00:01 r0 added y"},
		}, {
			name:  "an error ends kubectl's watch; what follows is compared",
			lines: []string{change("ADDED", "12:00:00", "a", 1), change("ERROR", "12:00:01", "", 0), change("ADDED", "12:01:00", "a", 2), change("ADDED", "12:01:00", "b", 3), change("MODIFIED", "12:02:00", "b", 4)},
			want:  []string{"12:00:00 r0 synced a", "12:01:00 r0 updated a", "12:01:00 r0 added b", "12:02:00 r0 updated b"},
		}, {
			name: "time after the end", after: 3 * time.Hour,
			rules: append(sources("v1/configmaps"), "kind: Rule, metadata: {name: hourly}, spec: {source: s0, handler: print, resync: 1h, events: [synced]}"),
			lines: []string{change("ADDED", "12:00:00", "a", 1)},
			want:  []string{"12:00:00 hourly synced a", "12:00:00 r0 synced a", "13:00:00 hourly synced a", "14:00:00 hourly synced a", "15:00:00 hourly synced a"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.rules == nil {
				test.rules = rules
			}
			p := &player{plan: compile(t, test.rules...), start: test.start}
			got := playAll(t, p, strings.NewReader(strings.Join(test.lines, "\n")), test.after)
			if test.name == "time after the end" && len(got) > 1 && got[0] > got[1] {
				got[0], got[1] = got[1], got[0] // rules of one moment come in any order
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The resource of an object is what its line says, or one that a kind may have.
func TestResources(t *testing.T) {
	t.Parallel()
	p := &player{plan: compile(t, sources("v1/pods", "gateway.networking.k8s.io/v1/gateways", "networking.k8s.io/v1/ingresses",
		"v1/endpoints", "networking.k8s.io/v1/networkpolicies", "example.com/v1/oxen", "metrics.k8s.io/v1beta1/pods")...), start: noon}
	var lines []string
	for _, kind := range []string{"v1 Pod", "gateway.networking.k8s.io/v1 Gateway", "networking.k8s.io/v1 Ingress", "v1 Endpoints",
		"networking.k8s.io/v1 NetworkPolicy", "example.com/v1 Ox", "v2 Pod"} {
		version, kind, _ := strings.Cut(kind, " ")
		lines = append(lines, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"a"}}`, version, kind))
	}
	lines = append(lines, `{"type":"ADDED","resource":"example.com/v1/oxen","object":{"apiVersion":"example.com/v1","kind":"Ox","metadata":{"name":"b"}}}`,
		`{"type":"ADDED","resource":"metrics.k8s.io/v1beta1/pods","object":{"apiVersion":"metrics.k8s.io/v1beta1","kind":"PodMetrics","metadata":{"name":"c"}}}`)
	got := playAll(t, p, strings.NewReader(strings.Join(lines, "\n")), 0)
	want := []string{"12:00:00 r0 synced a", "12:00:00 r1 synced a", "12:00:00 r2 synced a", "12:00:00 r3 synced a", "12:00:00 r4 synced a",
		"12:00:00 r5 synced b", "12:00:00 r6 synced c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"example.com/v1/oxs": 1, "v2/pods": 1}, p.unknown); diff != "" {
		t.Errorf("unknown (-want +got)\n%s", diff)
	}
}

// A comparison keeps no event that both configurations have.
func TestComparisonKeepsOnlyDifferences(t *testing.T) {
	t.Parallel()
	c := newComparison()
	for n := range 100 {
		for of := range 2 {
			e := simulate.Event{At: noon, Rule: "r", Handler: "h"}
			e.Event.ID, e.Event.Attempt = fmt.Sprint(n), 1
			c.add(e, of)
		}
	}
	if c.differs() || c.same != 100 || len(c.waiting[ofOther])+len(c.waiting[ofNew])+len(c.differ) > 0 {
		t.Errorf("%+v", c)
	}
}
