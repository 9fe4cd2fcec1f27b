package measure

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/expr"
)

func compile(t *testing.T, scope expr.Scope, isNumber bool, text string) *expr.Program {
	t.Helper()
	p, err := expr.Compile(text, expr.Options{Scope: scope, IsNumber: isNumber})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSample(t *testing.T) {
	object := map[string]any{
		"n": int64(3), "f": 1.5, "yes": true, "text": "x", "time": "2026-01-02T03:04:05.5Z", "list": []any{},
		"long": strings.Repeat("é", MaxLabel), "invalid": "a\xffb", "hostile": "a\x1b[31m\u009b\u202e\n", "huge": 1e308, "nan": math.NaN(),
	}
	for _, c := range []struct {
		value, label string
		isCounter    bool
		want         Sample
		err          string
	}{
		{value: "", label: "object.text", want: Sample{Is: true, Labels: "x\xffb", Value: 1}},
		{value: "object.n", label: "object.none", want: Sample{Is: true, Labels: "\xffb", Value: 3}},
		{value: "object.f", label: "object.n", want: Sample{Is: true, Labels: "3\xffb", Value: 1.5}},
		{value: "object.yes", label: "object.yes", want: Sample{Is: true, Labels: "true\xffb", Value: 1}},
		{value: "!object.yes", label: `""`, want: Sample{Is: true, Labels: "\xffb"}},
		{value: "time(object.time)", label: `""`, want: Sample{Is: true, Labels: "\xffb", Value: 1767323045.5}},
		{value: `duration("1m30s")`, label: `""`, want: Sample{Is: true, Labels: "\xffb", Value: 90}},
		{value: `quantity("250m")`, label: `quantity("1Gi")`, want: Sample{Is: true, Labels: "1Gi\xffb", Value: 0.25}},
		{value: "-object.n", label: `""`, want: Sample{Is: true, Labels: "\xffb", Value: -3}},
		{value: "object.none", label: `""`},
		{value: "1", label: "object.long", want: Sample{Is: true, Labels: strings.Repeat("é", (MaxLabel-len(cut))/2) + "…\xffb", Value: 1}},
		{value: "1", label: "object.hostile", want: Sample{Is: true, Labels: `a\u001b[31m\u009b\u202e` + "\n\xffb", Value: 1}},
		{value: "1", label: "object.invalid", want: Sample{Is: true, Labels: "a\uFFFDb\xffb", Value: 1}},
		{value: "object.text", label: `""`, err: "value: the expression gives a string, not a number: write float(…), quantity(…) or time(…) around it"},
		{value: "object.list", label: `""`, err: "value: the expression gives a list, not a number"},
		{value: "object.huge", label: `""`, err: "value: the expression gives a number beyond 1e300"},
		{value: "object.nan", label: `""`, err: "value: the expression gives a number beyond 1e300"},
		{value: "1", label: "object.list", err: "label a: a label needs a string, not a list"},
		{value: "-object.n", label: `""`, isCounter: true, err: "value: the expression gives a negative number, and a counter only goes up"},
	} {
		m := &Metric{IsCounter: c.isCounter, Labels: []Label{{"a", compile(t, expr.Gauge, false, c.label)}, {"b", compile(t, expr.Gauge, false, `"b"`)}}}
		if c.value != "" {
			m.Value = compile(t, expr.Gauge, true, c.value)
		}
		got := m.Sample(&expr.Env{Object: object})
		err := ""
		if got.Err != nil {
			err, got.Err = got.Err.Error(), nil
		}
		if got != c.want || err != c.err {
			t.Errorf("%s, %s: %+v, error %q; want %+v, error %q", c.value, c.label, got, err, c.want, c.err)
		}
		for _, label := range split(got.Labels, 2) {
			if got.Is && (!utf8.ValidString(label) || len(label) > MaxLabel) {
				t.Errorf("%s: the label %q", c.label, label)
			}
		}
	}
}

// recount is a Gauge that is recomputed each time.
type recount map[string]map[string]float64 // by labels, by object

func (r recount) set(object string, s Sample) {
	for labels, of := range r {
		if delete(of, object); len(of) == 0 {
			delete(r, labels)
		}
	}
	if s.Is {
		if r[s.Labels] == nil {
			r[s.Labels] = make(map[string]float64)
		}
		r[s.Labels][object] = s.Value
	}
}

// Whatever has happened, each series that is shown is the sum over its objects, as many are shown as
// may be, and a series that is shown stays until its last object has gone.
func TestGaugeIsARecount(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		most, labels, objects := 1+random.IntN(6), 1+random.IntN(12), 1+random.IntN(20)
		g := NewGauge(&Metric{Labels: make([]Label, 1), Max: most})
		parts := []*Part{g.NewPart(), g.NewPart(), g.NewPart()}
		for _, p := range parts {
			p.SetComplete(true)
		}
		want, before := recount{}, map[string]bool{}
		dropped := uint64(0)
		for step := range 400 {
			n := random.IntN(objects)
			key := fmt.Sprint(n)
			s := Sample{Is: random.IntN(4) > 0, Labels: fmt.Sprint("l", random.IntN(labels)), Value: []float64{0.1, 1, -3, 1e17, 7}[random.IntN(5)]}
			if random.IntN(100) == 0 {
				for m := range objects {
					if m%3 == n%3 {
						want.set(fmt.Sprint(m), Sample{})
					}
				}
				parts[n%3].End()
				parts[n%3] = g.NewPart()
				parts[n%3].SetComplete(true)
			} else {
				want.set(key, s)
				if parts[n%3].Set(key, s) {
					dropped++
				}
			}
			all, ok := g.Series()
			if !ok || len(all) != min(most, len(want)) || g.Stats() != (Stats{len(all), len(want) - len(all), dropped}) {
				t.Fatalf("seed %d, step %d: %d series, %+v, of %d; at most %d", seed, step, len(all), g.Stats(), len(want), most)
			}
			shown := map[string]bool{}
			for _, series := range all {
				label := series.Labels[0]
				shown[label] = true
				sum := total{}
				for _, object := range slices.Sorted(maps.Keys(want[label])) {
					sum.add(want[label][object])
				}
				if len(want[label]) == 0 || math.Abs(series.Value-sum.value()) > 1e-6+1e-15*math.Abs(sum.value()) {
					t.Fatalf("seed %d, step %d: %s is %v, want %v", seed, step, label, series.Value, sum.value())
				}
			}
			for label := range before {
				if want[label] != nil && !shown[label] {
					t.Fatalf("seed %d, step %d: %s is not shown any more", seed, step, label)
				}
			}
			before = shown
		}
		for n := range objects {
			parts[n%3].Set(fmt.Sprint(n), Sample{})
		}
		if all, _ := g.Series(); len(all) != 0 || len(g.series) != 0 || g.waiting.Len() != 0 {
			t.Fatalf("seed %d: without objects there are %v", seed, all)
		}
	}
}

// The series that has waited longest takes the place of one that goes.
func TestRoom(t *testing.T) {
	g := NewGauge(&Metric{Labels: make([]Label, 1), Max: 2})
	p := g.NewPart()
	set := func(key, label string) bool { return p.Set(key, Sample{Is: label != "", Labels: label, Value: 1}) }
	for key, label := range []string{"a", "b", "c", "d", "c"} {
		if got, want := set(fmt.Sprint(key), label), key == 2 || key == 3; got != want {
			t.Errorf("%s: dropped is %v", label, got)
		}
	}
	if _, ok := g.Series(); ok || g.IsComplete() {
		t.Error("a gauge that lacks objects is shown")
	}
	p.SetComplete(true)
	for _, step := range []struct {
		key, label string
		want       string
	}{
		{"0", "", "b=1 c=2"},
		{"1", "e", "c=2 d=1"},
		{"2", "", "c=1 d=1"},
		{"4", "", "d=1 e=1"},
		{"3", "f", "e=1 f=1"}, // nobody waits
	} {
		set(step.key, step.label)
		var got []string
		all, _ := g.Series()
		for _, s := range all {
			got = append(got, fmt.Sprintf("%s=%v", s.Labels[0], s.Value))
		}
		slices.Sort(got)
		if diff := cmp.Diff(step.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%+v (-want +got)\n%s", step, diff)
		}
	}
}

func TestCounter(t *testing.T) {
	c := NewCounter(&Metric{Labels: make([]Label, 2), Max: 2})
	for i, s := range []struct {
		sample  Sample
		dropped bool
	}{
		{Sample{Is: true, Labels: "a\xffx", Value: 1}, false},
		{Sample{Is: true, Labels: "b\xffx", Value: 2}, false},
		{Sample{Is: true, Labels: "c\xffx", Value: 1}, true},
		{Sample{Is: true, Labels: "c\xffx", Value: 1}, true},
		{Sample{Is: true, Labels: "a\xffx", Value: 0.5}, false},
		{Sample{}, false},
	} {
		if got := c.Add(s.sample); got != s.dropped {
			t.Errorf("%d: dropped is %v", i, got)
		}
	}
	all := c.Series()
	slices.SortFunc(all, func(a, b Series) int { return strings.Compare(a.Labels[0], b.Labels[0]) })
	if diff := cmp.Diff([]Series{{[]string{"a", "x"}, 1.5}, {[]string{"b", "x"}, 2}}, all); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := c.Stats(); got != (Stats{Series: 2, Dropped: 2}) {
		t.Errorf("%+v", got)
	}
}

// Informers change a Gauge while it is scraped.
func TestConcurrentUse(t *testing.T) {
	g := NewGauge(&Metric{Labels: make([]Label, 1), Max: 5})
	var all sync.WaitGroup
	for n := range 4 {
		p := g.NewPart()
		p.SetComplete(true)
		all.Go(func() {
			for i := range 2000 {
				p.Set(fmt.Sprint(i%50), Sample{Is: i%3 > 0, Labels: fmt.Sprint(i % 7), Value: float64(n)})
			}
			p.End()
		})
	}
	for range 200 {
		g.Series()
		g.Stats()
	}
	all.Wait()
	if series, ok := g.Series(); len(series) != 0 || !ok {
		t.Errorf("%v is left", series)
	}
}
