package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
)

// series returns the series of all metrics that are shown, as name{values}=value.
func series(e *Engine) (all []string) {
	for _, f := range e.Metrics() {
		for _, s := range f.Series {
			all = append(all, fmt.Sprintf("%s{%s}=%v", f.Name, strings.Join(s.Labels, ","), s.Value))
		}
	}
	slices.Sort(all)
	return all
}

// measures waits until the metrics are shown as they should be.
func (l *life) measures(e *Engine, want ...string) {
	l.t.Helper()
	want = slices.Sorted(slices.Values(want))
	var got []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		isCounted := !slices.ContainsFunc(e.Status().Metrics, func(s admin.MetricStatus) bool { return s.Counts })
		if got = series(e); isCounted && slices.Equal(got, want) {
			return
		}
		l.server.Bookmark()
	}
	l.t.Fatalf("metrics (-want +got)\n%s", cmp.Diff(want, got))
}

// holds waits until a condition holds.
func (l *life) holds(what string, is func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatal("it never holds that " + what)
		}
		l.server.Bookmark()
	}
}

func withMetrics(manifest, metrics string) string {
	return strings.Replace(manifest, "spec: {", "spec: {metrics: ["+metrics+"], ", 1)
}

const bySize = "{name: by_size, labels: {size: object.data.size}}"

func sourceWith(metrics string) string {
	return oneHandler + withMetrics("\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: maps}\nspec: {resource: v1/configmaps}\n", metrics)
}

// A metric needs no handler, and its rule delivers nothing.
func ruleWith(name, spec, metrics string) string {
	return fmt.Sprintf("---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: %s}\nspec: {source: maps%s, metrics: [%s]}\n", name, spec, metrics)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "1")
	l.put("c", "9")
	rules := sourceWith(bySize) +
		ruleWith("large", ", where: int(object.data.size) > 5", "{name: large, value: int(object.data.size)}, {name: hidden, value: object.data.none}") +
		ruleWith("changes", "", `{name: changes_total, type: counter, labels: {event: event, was: old.data.size}}`)
	h := &teller{}
	e, stop := l.startWith(rules, h)
	l.measures(e, "by_size{1}=2", "by_size{9}=1", "large{}=9", "changes_total{synced,}=3")
	l.put("b", "7")
	l.measures(e, "by_size{1}=1", "by_size{7}=1", "by_size{9}=1", "large{}=16", "changes_total{synced,}=3", "changes_total{updated,1}=1")
	l.delete("c")
	l.put("b", "what")
	l.measures(e, "by_size{1}=1", "by_size{what}=1", "changes_total{synced,}=3", "changes_total{updated,1}=1", "changes_total{updated,7}=1", "changes_total{deleted,}=1")
	if told := h.since(); len(told) > 0 {
		t.Errorf("a rule with metrics alone has delivered %q", told)
	}
	if rules := e.Status().Rules; rules[0].Handler != live.OnlyMetrics || rules[1].Queue.Waiting != 0 {
		t.Errorf("%+v", rules)
	}
	stop()
	e, stop = l.startWith(rules, h)
	defer func() { stop() }()
	l.measures(e, "by_size{1}=1", "by_size{what}=1") // a counter starts over, and nothing has changed
}

// An object on which an expression fails contributes nothing, and is counted and reported.
func TestMetricFails(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "x")
	e, stop := l.startWith(sourceWith("{name: size, value: int(object.data.size), labels: {size: object.data.size}}"), &teller{})
	defer stop()
	l.measures(e, "size{1}=1")
	s := e.Status().Metrics[0]
	if s.Errors == 0 || s.LastError == nil || s.LastError.Key.Name != "b" || s.Source != "maps" || s.LastError.Reason != `value: "int" cannot parse its argument` {
		t.Errorf("%+v, %+v", s, s.LastError)
	}
	l.put("b", "2")
	l.measures(e, "size{1}=1", "size{2}=2")
}

func TestMetricIsFull(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for i := range 5 {
		l.put(fmt.Sprint(i), fmt.Sprint(i))
	}
	e, stop := l.startWith(sourceWith("{name: by_size, series: 2, labels: {size: object.data.size}}")+
		ruleWith("r", "", "{name: sizes_total, type: counter, series: 3, labels: {size: object.data.size}}"), &teller{})
	defer stop()
	l.holds("all are counted", func() bool {
		m := e.Status().Metrics
		return !m[0].Counts && m[0].Stats.Series == 2 && m[0].Stats.Waiting == 3 && m[0].Stats.Dropped == 3 && m[1].Stats.Series == 3 && m[1].Stats.Dropped == 2
	})
	for i := range 4 {
		l.delete(fmt.Sprint(i))
	}
	l.holds("the last one has room", func() bool {
		return slices.Contains(series(e), "by_size{4}=1") && e.Status().Metrics[0].Stats.Series == 1
	})
}

// A gauge of a rule with for counts the objects that have become members.
func TestTimedGauge(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("small", "1")
	l.put("large", "9")
	timed := func(name string) string {
		return mapSource + ruleWith("r", ", where: int(object.data.size) > 5, for: 1h", "{name: "+name+", value: int(object.data.size)}")
	}
	e, stop := l.startWith(timed("large"), &teller{})
	pending := func(n int) {
		l.holds(fmt.Sprint(n, " wait"), func() bool { return e.Status().Rules[0].Pending == n })
	}
	pending(1)
	l.measures(e)
	l.ahead.Add(int64(time.Hour))
	e.Wake()
	l.measures(e, "large{}=9")
	l.put("other", "8")
	pending(1)
	l.measures(e, "large{}=9")
	if _, err := l.reload(e, timed("renamed"), &teller{}); err != nil {
		t.Fatal(err)
	}
	l.measures(e, "renamed{}=9")
	stop()
	e, stop = l.startWith(timed("large"), &teller{})
	defer func() { stop() }()
	l.measures(e, "large{}=9")
	pending(1)
	l.ahead.Add(int64(time.Hour))
	e.Wake()
	l.measures(e, "large{}=17")
	l.put("large", "2")
	l.measures(e, "large{}=8")
}

// A reload keeps metrics that its manifests describe as before: a counter goes on. What is new is
// counted at once, and what is gone is not shown.
func TestReloadOfMetrics(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "9")
	counter := func(when, label string) string {
		return ruleWith("r", when, "{name: changes_total, type: counter, labels: {"+label+"}}")
	}
	e, stop := l.startWith(sourceWith(bySize)+counter("", "event: event"), &teller{})
	defer stop()
	l.measures(e, "by_size{1}=1", "by_size{9}=1", "changes_total{synced}=2")
	for _, step := range []struct {
		manifests string
		changed   []string
		want      []string
	}{
		{sourceWith(bySize) + counter(", when: 'true'", "event: event"), []string{"r"}, []string{"by_size{1}=1", "by_size{9}=1", "changes_total{synced}=2"}},
		{sourceWith(bySize+", {name: all}") + counter(", when: 'true'", "event: event"), nil, []string{"all{}=2", "by_size{1}=1", "by_size{9}=1", "changes_total{synced}=2"}},
		{sourceWith("{name: all}") + counter(", when: 'true'", "other: event"), []string{"r"}, []string{"all{}=2"}},
		{sourceWith("{name: all}") + ruleWith("r", ", where: object.data.size == '9'", bySize), []string{"r"}, []string{"all{}=2", "by_size{9}=1"}},
		{sourceWith("{name: all}") + ruleWith("r", ", where: object.data.size == '1'", bySize), []string{"r"}, []string{"all{}=2", "by_size{1}=1"}},
		{strings.Replace(sourceWith("{name: all}"), "configmaps}", "configmaps, namespaces: [pay, shop]}", 1) + ruleWith("r", ", where: object.data.size == '1'", bySize), []string{"r"}, []string{"all{}=2", "by_size{1}=1"}},
	} {
		done, err := l.reload(e, step.manifests, &teller{})
		if err != nil {
			t.Fatal(err)
		}
		if len(done.Added) > 0 || len(done.Gone) > 0 || !slices.Equal(done.Changed, step.changed) {
			t.Errorf("%+v, want that %v have changed", done, step.changed)
		}
		l.measures(e, step.want...)
	}
}

// Whatever happens to objects, to the connection, to the manifests and to the daemon, the gauges are
// what a recount gives.
func TestGaugesAreARecount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newRecount(t, seed).run(60)
		})
	}
}

type recount struct {
	*life
	random  *rand.Rand
	began   time.Time
	objects map[string]recounted // by namespace and name
	variant int
	engine  *Engine
	stop    func()
}

type recounted struct {
	size int
	due  time.Time
}

func newRecount(t *testing.T, seed uint64) *recount {
	return &recount{
		life: newLife(t), random: rand.New(rand.NewPCG(seed, 1)), began: time.Now().Truncate(time.Second),
		objects: make(map[string]recounted),
	}
}

// variants of the manifests: which namespaces the source has, which objects the rules have inside,
// and a rule more.
const variants = 12

func (r *recount) manifests() string {
	source := sourceWith("{name: all}, {name: size, value: int(object.data.size), labels: {namespace: object.metadata.namespace}}")
	if r.variant%2 == 1 {
		source = strings.Replace(source, "configmaps}", "configmaps, namespaces: [shop]}", 1)
	}
	text := source + ruleWith("inside", fmt.Sprintf(", where: int(object.data.size) > %d", r.least()), "{name: inside, labels: {size: object.data.size}}") +
		ruleWith("due", ", due: time(object.data.due)", "{name: due, labels: {odd: int(object.data.size) % 2 == 1}}")
	if r.variant%3 == 0 {
		text += strings.Replace(aRule("more", ", where: int(object.data.size) > 4"), "spec: {", "spec: {metrics: [{name: more}], ", 1)
	}
	return text
}

func (r *recount) least() int { return []int{2, 5}[r.variant/2%2] }

// want returns the metrics, recounted.
func (r *recount) want() (all []string) {
	now := lifeClock{r.life}.Now()
	sums := make(map[string]int)
	for key, o := range r.objects {
		namespace, _, _ := strings.Cut(key, "/")
		if r.variant%2 == 1 && namespace != "shop" {
			continue
		}
		sums["all{}"]++
		sums["size{"+namespace+"}"] += o.size
		if o.size > r.least() {
			sums[fmt.Sprintf("inside{%d}", o.size)]++
		}
		if !o.due.After(now) {
			sums[fmt.Sprintf("due{%v}", o.size%2 == 1)]++
		}
		if r.variant%3 == 0 && o.size > 4 {
			sums["more{}"]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, fmt.Sprintf("%s=%d", name, sums[name]))
	}
	return all
}

func (r *recount) run(steps int) {
	r.engine, r.stop = r.startWith(r.manifests(), &teller{})
	defer func() { r.stop() }()
	for step := range steps {
		for range r.random.IntN(6) {
			r.change()
		}
		switch r.random.IntN(10) {
		case 0:
			r.stop()
			for range r.random.IntN(4) {
				r.change()
			}
			r.variant = r.random.IntN(variants)
			r.engine, r.stop = r.startWith(r.manifests(), &teller{})
		case 1:
			r.server.DropWatches()
		case 2:
			r.server.Expire()
		case 3, 4, 5:
			r.variant = r.random.IntN(variants)
			r.reloads()
		case 6:
			r.ahead.Add(int64(time.Hour))
			r.engine.Wake()
		}
		if step%3 == 0 {
			r.settle()
		}
	}
	r.settle()
}

// reloads reloads the manifests, once the engine runs.
func (r *recount) reloads() {
	r.t.Helper()
	r.holds("the engine reloads", func() bool {
		_, err := r.reload(r.engine, r.manifests(), &teller{})
		if err != nil && !errors.Is(err, ErrNotRunning) && !errors.Is(err, admin.ErrStopping) {
			r.t.Fatal(err)
		}
		return err == nil
	})
}

// settle checks the metrics once all changes have come through.
func (r *recount) settle() {
	r.t.Helper()
	r.reloads()
	r.measures(r.engine, r.want()...)
}

// change changes one object. The due times are on whole hours and a half, so that nothing becomes due
// while a test waits.
func (r *recount) change() {
	namespace, name := []string{"shop", "pay"}[r.random.IntN(2)], strconv.Itoa(r.random.IntN(12))
	key := namespace + "/" + name
	if r.random.IntN(4) == 0 {
		if _, is := r.objects[key]; is {
			delete(r.objects, key)
			r.server.Delete(configMaps, namespace, name)
		}
		return
	}
	o := recounted{size: r.random.IntN(9), due: r.began.Add(time.Duration(r.random.IntN(12))*time.Hour + 30*time.Minute)}
	r.objects[key] = o
	r.server.Apply(configMaps, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"data":{"size":"%d","due":%q}}`, namespace, name, o.size, o.due.UTC().Format(time.RFC3339)))
}

// BenchmarkMeasured evaluates and commits updates of objects that gauges measure, and that a rule
// counts.
func BenchmarkMeasured(b *testing.B) {
	for name, rules := range map[string]string{
		"gauges": sourceWith(bySize) + ruleWith("large", `, where: object.data.size == "1"`, "{name: large}"),
		"counts": mapSource + aRule("third", thrice),
	} {
		b.Run(name, func(b *testing.B) {
			_, _, in := idle(b, rules)
			const objects = 1000
			states := make([]*object.Object, 0, 2*objects)
			for n := range cap(states) {
				states = append(states, configMap(b, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"o%d","uid":"u","resourceVersion":"%d"},"data":{"size":"%d"}}`, n%objects, n+1, n/objects)))
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				i, turn := n%objects, n/objects%2
				old, o := states[i+turn*objects], states[i+(1-turn)*objects]
				in.Take(source.Step{Delta: delta.Delta{Type: delta.Updated, Object: o, Old: old}})
				n++
			}
		})
	}
}
