package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   string
	}{
		{nil, "ERROR"},
		{[]float64{2}, "2.0"},
		{[]float64{3, 1, 2}, "2.0 (1.0–3.0)"},
		{[]float64{4, 1, 2, 3}, "2.5 (1.0–4.0)"},
		{[]float64{0.04, -1}, "-0.5 (-1.0–0.0)"}, // unflattering or odd, it is printed
	} {
		if got := spread(test.values, 1, func(f float64) float64 { return f }); got != test.want {
			t.Errorf("%v: got %s, want %s", test.values, got, test.want)
		}
	}
}

func TestTargets(t *testing.T) {
	for _, test := range []struct {
		target target
		want   string
	}{
		{target{limit: 0.1, value: 0.0999}, "at most 1/10|1/10|met"},
		{target{limit: 0.1, value: 0.11}, "at most 1/10|1/9.09|MISSED"},
		{target{limit: 0.1, value: 2}, "at most 1/10|2|MISSED"},
		{target{limit: 2, value: 2}, "at most 2|2|met"},
		{target{limit: 4, value: 0.512}, "at most 4|0.512|met"},
		{target{least: true, limit: 25, value: 24.9}, "at least 25|24.9|MISSED"},
		{target{least: true, limit: 25, value: 77.77}, "at least 25|77.8|met"},
		{target{least: true, limit: 25, value: 77, err: true}, "at least 25|not measured|MISSED"},
	} {
		if got := strings.Join(test.target.row()[1:4], "|"); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

// A contestant that failed in one round has no figure, and nothing is made of it.
func TestErrorIsNotAFigure(t *testing.T) {
	f := newFigures(site{}, 1)
	f.add(contestant{row: "1", name: "one"}, onlyPods(1))
	f.add(contestant{row: "2", name: "two"}, onlyPods(1))
	f.entries[0].results.add(sample{cpuDelta: 10}, nil)
	f.entries[1].results.add(sample{cpuDelta: 1}, nil)
	if got := f.ratio("", false, 0.1, cpuDelta, "2", "1"); got.err || !got.met() {
		t.Errorf("%+v", got)
	}
	f.entries[1].results.add(sample{cpuDelta: 1}, fmt.Errorf("saw too little"))
	if got := f.ratio("", false, 0.1, cpuDelta, "2", "1"); !got.err || got.met() {
		t.Errorf("%+v", got)
	}
	want := [][]string{{"", "CPU µs/delta", "deltas/s"}, {"1: one", "10.0", "–"}, {"2: two", "ERROR", "ERROR"}}
	if diff := cmp.Diff(want, f.table("", "", cpuDelta, deltaRate).rows); diff != "" {
		t.Error(diff)
	}
}

func TestSplice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	for _, test := range []struct{ before, want string }{
		{"a\n" + markBegin + markEnd + "z\n", "a\n" + markBegin + "\n```\nnew\n```\n\n" + markEnd + "z\n"},
		{"a\n" + markBegin + "\n```\nold\n```\n" + markEnd, "a\n" + markBegin + "\n```\nnew\n```\n\n" + markEnd},
		{"a\n" + markEnd + markBegin, ""},
		{"a\n", ""},
	} {
		if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
			t.Fatal(err)
		}
		err := splice(path, "", "\nnew\n")
		got, _ := os.ReadFile(path)
		if test.want == "" {
			if err == nil || string(got) != test.before {
				t.Errorf("%q: %v, %q", test.before, err, got)
			}
		} else if err != nil || string(got) != test.want {
			t.Errorf("%q: %v, %q", test.before, err, got)
		}
	}
	if err := splice(filepath.Join(t.TempDir(), "none.md"), "", "new"); err == nil {
		t.Error("no document, and no error")
	}
}

// make bench has a place to write to.
func TestDocumentHasAPlace(t *testing.T) {
	text, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), markBegin) != 1 || strings.Count(string(text), markEnd) != 1 {
		t.Error("docs/benchmarks.md has no place for the report, or several")
	}
}

func TestMetric(t *testing.T) {
	body := "# HELP a b\n# TYPE a counter\na{x=\"1\"} 12\na{x=\"2\"} 1.5e+06\n"
	for series, want := range map[string]int{`a{x="1"}`: 12, `a{x="2"}`: 1_500_000, `a{x="3"}`: 0, "a": 0} {
		if got := metric(body, series); got != want {
			t.Errorf("%s: got %d, want %d", series, got, want)
		}
	}
}

func TestPercentiles(t *testing.T) {
	var d []time.Duration
	for i := range 1001 {
		d = append(d, time.Duration(1000-i)*time.Millisecond)
	}
	want := latency{N: 1001, P50: 500_000, P99: 990_000, P999: 999_000, Most: 1_000_000}
	if got := percentiles(d); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := percentiles(nil); got != (latency{}) {
		t.Errorf("of none: %v", got)
	}
}

func TestSentAt(t *testing.T) {
	frame := `{"type":"MODIFIED","object":{"metadata":{"annotations":{"load.informd.dev/sent":"1795265689456814268"}}}}`
	if got, err := sentAt([]byte(frame)); err != nil || got.UnixNano() != 1795265689456814268 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", `"load.informd.dev/sent":"soon"`} {
		if got, err := sentAt([]byte(bad)); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}
