package engine

import (
	"fmt"
	"slices"

	"github.com/informd/informd/engine/gauges"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
	"github.com/informd/informd/engine/source"
)

// MetricFamily is a metric of a manifest, with its series as they are now.
type MetricFamily struct {
	Name, Help string
	IsCounter  bool
	Labels     []string // names
	Series     []measure.Series
}

// MetricStatus is the state of a metric of a manifest.
type MetricStatus struct {
	Name         string
	Source, Rule string // whose metric it is: one of them
	// Counts says that a gauge has not seen all objects yet: it has no series to show.
	Counts    bool
	Max       int // series
	Stats     measure.Stats
	Errors    uint64                  // objects, or changes, for which one of its expressions failed
	LastError *live.ExpressionFailure // the last failure that Errors counts, or nil
}

// addMetrics makes the metrics of the plan, or takes those of before.
func (b *builder) addMetrics() {
	for _, planned := range b.plan.Metrics {
		m := b.before.metric(planned)
		if m == nil {
			m = &live.Metric{Metric: planned, Failures: b.newFailures("metric", planned.Name)}
			if planned.IsCounter {
				m.Counter = measure.NewCounter(&planned.Metric)
			} else {
				m.Gauge = gauges.New(&planned.Metric, m.Failures.AddOn, m.IsFull)
			}
		}
		b.metrics[planned] = m
		b.next.metrics = append(b.next.metrics, m)
	}
}

// moveGauges hides the gauges whose informers are about to be others, until the result's End.
func (r *reload) moveGauges() *gauges.Moving {
	moving := new(gauges.Moving)
	for _, in := range slices.Concat(r.next.intakes, r.dropped) {
		in.MoveGauges(moving)
	}
	return moving
}

// metric returns the metric that does what planned says, or nil.
func (w *work) metric(planned *plan.Metric) *live.Metric {
	for _, m := range w.metrics {
		if m.Digest == planned.Digest && overOf(m.Metric) == overOf(planned) {
			return m
		}
	}
	return nil
}

// overOf returns a text that is the same for metrics over the same objects of a source, over the same
// members of a rule, or of the changes of the same rule.
func overOf(m *plan.Metric) string {
	resource := object.ResourceName(m.Source.Resource)
	switch {
	case m.Rule == nil:
		return fmt.Sprintf("source %q %s", m.Source.Name, resource)
	case m.IsCounter:
		return fmt.Sprintf("changes %q %s", m.Rule.Name, resource)
	}
	return fmt.Sprintf("rule %q %s %s", m.Rule.Name, resource, live.MembershipOf(m.Rule))
}

// MetricChanges names the metrics that a reload changes. A changed one starts over.
type MetricChanges = preview.Names

// metricChanges returns what a plan changes.
func (w *work) metricChanges(p *plan.Plan) (c MetricChanges) {
	for _, planned := range p.Metrics {
		isNamed := func(m *live.Metric) bool { return m.Name == planned.Name }
		switch {
		case w.metric(planned) != nil:
		case slices.ContainsFunc(w.metrics, isNamed):
			c.Changed = append(c.Changed, planned.Name)
		default:
			c.Added = append(c.Added, planned.Name)
		}
	}
	for _, m := range w.metrics {
		isNamed := func(planned *plan.Metric) bool { return m.Name == planned.Name }
		if !slices.ContainsFunc(p.Metrics, isNamed) {
			c.Gone = append(c.Gone, m.Name)
		}
	}
	return c
}

// countersOf returns the counters of a rule, in its order.
func (b *builder) countersOf(r *plan.Rule) (all []*live.Metric) {
	for _, planned := range b.plan.Metrics {
		if planned.Rule == r && planned.IsCounter {
			all = append(all, b.metrics[planned])
		}
	}
	return all
}

// Metrics returns the metrics of manifests. A gauge that has not seen all objects is missing.
func (e *Engine) Metrics() (all []MetricFamily) {
	for _, m := range e.work().metrics {
		f := MetricFamily{Name: m.Name, Help: m.Help, IsCounter: m.IsCounter}
		for _, label := range m.Labels {
			f.Labels = append(f.Labels, label.Name)
		}
		ok := true
		if m.IsCounter {
			f.Series = m.Counter.Series()
		} else {
			f.Series, ok = m.Gauge.Series()
		}
		if ok {
			all = append(all, f)
		}
	}
	return all
}

// statusOfMetric returns the state of a metric.
func statusOfMetric(m *live.Metric, of *work) MetricStatus {
	s := MetricStatus{
		Name: m.Name, Source: m.Source.Name, Max: m.Max,
		Errors: m.Failures.Errors(),
	}
	var over *source.Source
	for _, running := range of.sources {
		if running.Name == m.Source.Name {
			over = running.View
		}
	}
	s.LastError = m.Failures.LastOf(over, nil)
	if m.Rule != nil {
		s.Source, s.Rule = "", m.Rule.Name
	}
	if m.IsCounter {
		s.Stats = m.Counter.Stats()
	} else {
		s.Stats = m.Gauge.Stats()
		s.Counts = !m.Gauge.IsComplete()
	}
	return s
}
