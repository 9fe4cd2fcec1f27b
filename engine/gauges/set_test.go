package gauges_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/gauges"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

// world is an informer's objects, with a gauge over their sizes.
type world struct {
	t      *testing.T
	metric *measure.Metric
	gauge  *gauges.Gauge
	there  map[string]*object.Object
	errs   []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	size, err := expr.Compile("object.size", expr.Options{Scope: expr.Gauge})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, there: make(map[string]*object.Object)}
	w.metric = &measure.Metric{Name: "sizes", Max: 2, Labels: []measure.Label{{Name: "size", Value: size}}}
	w.gauge = w.newGauge()
	return w
}

func (w *world) newGauge() *gauges.Gauge {
	failed := func(err error, o *object.Object) { w.errs = append(w.errs, o.Key()+": "+err.Error()) }
	return gauges.New(w.metric, failed, func() { w.errs = append(w.errs, "full") })
}

func (w *world) newSet(all ...*gauges.Gauge) *gauges.Set {
	paths := w.metric.Paths()
	scope := evaluate.NewScope(object.NewDecoder(paths), object.NewDecoder(new(object.Paths)))
	s := gauges.NewSet(gauges.Rules{Evaluator: evaluate.New(nil, nil, scope)})
	for _, g := range all {
		s.Add(g, evaluate.Gauge{Metric: w.metric, Rule: -1}, false)
	}
	return s
}

// put returns an object, which is there from now on.
func (w *world) put(name, size string) *object.Object {
	w.t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":"u","resourceVersion":"1"},"size":%s}`, name, size))
	if err != nil {
		w.t.Fatal(err)
	}
	w.there[o.Key()] = o
	return o
}

// step measures the object of a step.
func (w *world) step(s *gauges.Set, o *object.Object, isGone bool) {
	var c evaluate.Change
	s.Measure(o, isGone, nil, &c)
	s.Apply(&c)
}

func (w *world) known(yield func(*object.Object) bool) {
	for _, o := range w.there {
		if !yield(o) {
			return
		}
	}
}

// turn gives s one turn in which the clock goes on by step at each look.
func (w *world) turn(s *gauges.Set, step time.Duration) (again time.Time) {
	now := time.Unix(0, 0)
	clock := func() time.Time {
		now = now.Add(step)
		return now
	}
	return s.Turn(now, clock, func(key string) *object.Object { return w.there[key] })
}

func (w *world) expect(g *gauges.Gauge, isShown bool, want ...string) {
	w.t.Helper()
	all, ok := g.Series()
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprintf("%v=%v", s.Labels, s.Value))
	}
	slices.Sort(got)
	if ok != isShown || g.IsComplete() != isShown {
		w.t.Errorf("the gauge is shown: %t, want %t", ok, isShown)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("series (-want +got)\n%s", diff)
	}
}

// Steps measure their objects, and turns the others. Until then the gauge is not shown.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.newSet(w.gauge)
	s.Begin()
	w.step(s, w.put("a", `"1"`), false)
	w.put("b", `"1"`)
	w.put("c", `"2"`)
	w.expect(w.gauge, false)
	s.CaughtUp(w.known)
	if again := w.turn(s, 2*timing.Turn); !again.After(time.Unix(0, 0)) {
		t.Error("one turn is enough for two objects")
	}
	w.expect(w.gauge, false)
	if again := w.turn(s, 0); !again.IsZero() {
		t.Errorf("it goes on at %s", again)
	}
	w.expect(w.gauge, true, "[1]=2", "[2]=1")
	w.step(s, w.there["c"], true)
	w.step(s, w.put("a", `[]`), false)
	w.expect(w.gauge, true, "[1]=1")
	w.step(s, w.put("d", `"3"`), false)
	w.step(s, w.put("e", `"4"`), false)
	want := []string{"a: label size: a label needs a string, not a list", "full"}
	if diff := cmp.Diff(want, w.errs); diff != "" {
		t.Errorf("reported (-want +got)\n%s", diff)
	}
	s.End()
	w.expect(w.gauge, true)
}

// A Set takes over the gauges of the one before, and has all objects measured for others.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.newSet(w.gauge)
	old.Begin()
	w.step(old, w.put("a", `"1"`), false)
	old.CaughtUp(w.known)
	w.turn(old, 0)

	added := w.newGauge()
	next := w.newSet(added, w.gauge)
	if next.IsSame(old) || !old.IsSame(w.newSet(w.gauge)) || old.IsSame(nil) {
		t.Error("sets are the same if their gauges are")
	}
	var moving gauges.Moving
	moving.Add(next, old)
	moving.Add(nil, old)
	next.TakeOver(old, w.known, true)
	w.expect(w.gauge, true, "[1]=1")
	w.turn(next, 0)
	all, isShown := added.Series()
	if isShown || len(all) != 1 {
		t.Errorf("while its informers move, a gauge is shown: %t, with %v", isShown, all)
	}
	moving.End()
	w.expect(added, true, "[1]=1")

	var none *gauges.Set
	none.TakeOver(next, w.known, true)
	w.expect(added, true)
	w.expect(w.gauge, true)
	none.Begin()
	none.CaughtUp(w.known)
	w.step(none, w.there["a"], false)
	if again := w.turn(none, 0); !again.IsZero() || none.Later(w.there["a"]) || !none.IsSame(nil) {
		t.Error("no gauges have nothing to measure")
	}
	none.End()
}
