package running

import (
	"fmt"
	"slices"

	"github.com/informd/informd/engine/gauges"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
)

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
		b.next.Metrics = append(b.next.Metrics, m)
	}
}

// MoveGauges hides the gauges of intakes whose informers are about to be others, until the result's End.
func MoveGauges(of ...*intake.Intake) *gauges.Moving {
	moving := new(gauges.Moving)
	for _, in := range of {
		in.MoveGauges(moving)
	}
	return moving
}

// metric returns the metric that does what planned says, or nil.
func (w *Work) metric(planned *plan.Metric) *live.Metric {
	for _, m := range w.Metrics {
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

// MetricChanges returns what a plan changes.
func (w *Work) MetricChanges(p *plan.Plan) (c MetricChanges) {
	for _, planned := range p.Metrics {
		isNamed := func(m *live.Metric) bool { return m.Name == planned.Name }
		switch {
		case w.metric(planned) != nil:
		case slices.ContainsFunc(w.Metrics, isNamed):
			c.Changed = append(c.Changed, planned.Name)
		default:
			c.Added = append(c.Added, planned.Name)
		}
	}
	for _, m := range w.Metrics {
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
