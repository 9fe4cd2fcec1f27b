package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

func TestParseStat(t *testing.T) {
	// The name may hold what separates fields; the rest is of a real file.
	line := "42 (a) Z 1 (b) S 7 42 42 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 9 0 5 1000 " + fmt.Sprint(3<<20/os.Getpagesize()) + " 1 1\n"
	got, err := parseStat(line)
	want := process{pid: 42, parent: 7, cpu: 1750 * time.Millisecond, rss: 3 << 10}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42", "42 (a)", "42 a S 7", strings.Replace(line, "150", "x", 1), strings.Replace(line, "42", "", 1)} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: got %+v; want an error", bad, got)
		}
	}
}

// scripted is a subject that has seen what it is told to have seen, the last of it for ever.
type scripted []sight

type sight struct {
	objects, updates int
	ok               bool
	err              error
}

func (s *scripted) seen(context.Context) (objects, updates int, ok bool, err error) {
	now := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	return now.objects, now.updates, now.ok, now.err
}
func (*scripted) pid() int    { return 0 }
func (*scripted) stop() error { return nil }

// A figure is printed only if exactly what happened was seen.
func TestAwait(t *testing.T) {
	for _, test := range []struct {
		name string
		seen scripted
		want string // of the error; "" for none
	}{
		{"at once", scripted{{5, 3, true, nil}}, ""},
		{"in the end", scripted{{0, 0, false, nil}, {5, 0, true, nil}, {5, 3, true, nil}}, ""},
		{"one update is missing", scripted{{5, 2, true, nil}}, "saw 5 objects of 5 and 2 updates of 3: context deadline exceeded"},
		{"one object is missing", scripted{{4, 3, true, nil}}, "saw 4 objects of 5"},
		{"an update came twice", scripted{{5, 2, true, nil}, {5, 4, true, nil}}, "too many"},
		{"somebody else's object", scripted{{6, 0, true, nil}}, "too many"},
		{"never synced", scripted{{5, 3, false, nil}}, "deadline"},
		{"ended", scripted{{5, 2, true, nil}, {0, 0, false, errors.New("it has ended")}}, "it has ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := await(t.Context(), &test.seen, 5, 3, time.Second)
				if err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) || err == nil && test.want != "" {
					t.Errorf("got %v; want %q", err, test.want)
				}
			})
		})
	}
}

// What informd is given is without mistakes and has as many rules as the table says.
func TestManifests(t *testing.T) {
	for _, m := range []manifests{{rules: 1}, {rules: 1, path: "/dev/null"}, {rules: 1, noMatch: true}, {rules: 100, noMatch: true}} {
		parsed, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(m.in("default"))}})
		compiled, more := plan.Compile(parsed)
		if len(mistakes)+len(more) > 0 {
			t.Errorf("%+v: %v %v", m, mistakes, more)
			continue
		}
		if len(compiled.Rules) != m.rules || len(compiled.Informers) != 1 {
			t.Errorf("%+v: %d rules and %d informers", m, len(compiled.Rules), len(compiled.Informers))
		}
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

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   string
	}{
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

// Only the lines that were asked for give a latency, and that of the new state.
func TestLines(t *testing.T) {
	sent := func(ago time.Duration) string { return fmt.Sprint(time.Now().Add(-ago).UnixNano()) }
	updated := `{"event":"updated","object":{"data":{"sent":"` + sent(time.Hour) + `"}},"old":{"data":{"sent":"1"}}}` + "\n"
	for _, test := range []struct {
		name, text string
		want       string // of the error; "" for none
	}{
		{"as many as asked for", updated + updated, ""},
		{"one is missing", updated, "1 of 2 updated events came"},
		{"one is of another kind", updated + strings.Replace(updated, "updated", "deleted", 1), "not one of the updated"},
		{"one has no time", updated + `{"event":"updated","object":{}}` + "\n", "not one of the updated"},
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		if _, err := write.WriteString(test.text); err != nil {
			t.Fatal(err)
		}
		if err := write.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := (&lines{read, bufio.NewReader(read)}).read(2, "updated")
		if err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) || err == nil && test.want != "" {
			t.Errorf("%s: got %v; want %q", test.name, err, test.want)
		}
		if err == nil && (len(got) != 2 || got[0].Truncate(time.Hour) != time.Hour) {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}

func TestPercentiles(t *testing.T) {
	var d []time.Duration
	for i := range 101 {
		d = append(d, time.Duration(100-i)*time.Millisecond)
	}
	if got, want := percentiles(d), (latency{50, 90, 99, 100}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
