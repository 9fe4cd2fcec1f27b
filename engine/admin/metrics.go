package admin

import (
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/running"
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

// Metrics returns the metrics of manifests. A gauge that has not seen all objects is missing.
func (d *Desk) Metrics() (all []MetricFamily) {
	for _, m := range d.present.Work().Metrics {
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
func statusOfMetric(m *live.Metric, of *running.Work) MetricStatus {
	s := MetricStatus{
		Name: m.Name, Source: m.Source.Name, Max: m.Max,
		Errors: m.Failures.Errors(),
	}
	var over *source.Source
	for _, running := range of.Sources {
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
