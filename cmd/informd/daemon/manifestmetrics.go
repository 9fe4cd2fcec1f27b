package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/admin"
)

// manifestCollector shows the metrics that manifests define, and how they are. A reload changes which
// there are, so it describes none of them.
type manifestCollector struct{ engine *engine.Engine }

var (
	metricSeries = desc("informd_metric_series",
		"Series of a metric of a manifest, as many as are shown.", "metric")
	metricLimit = desc("informd_metric_series_limit",
		"How many series a metric of a manifest may have.", "metric")
	metricDropped = desc("informd_metric_series_dropped_total",
		"How often there was no room for another series of a metric of a manifest.", "metric")
	metricErrors = desc("informd_metric_errors_total",
		"Evaluations of a metric of a manifest that failed.", "metric")
)

// Describe implements prometheus.Collector.
func (manifestCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c manifestCollector) Collect(out chan<- prometheus.Metric) {
	for _, f := range c.engine.Metrics() {
		of, kind := desc(f.Name, f.Help, f.Labels...), prometheus.GaugeValue
		if f.IsCounter {
			kind = prometheus.CounterValue
		}
		for _, s := range f.Series {
			out <- prometheus.MustNewConstMetric(of, kind, s.Value, s.Labels...)
		}
	}
	for _, s := range c.engine.Status().Metrics {
		for _, number := range []struct {
			of    *prometheus.Desc
			kind  prometheus.ValueType
			value float64
		}{
			{metricSeries, prometheus.GaugeValue, float64(s.Stats.Series)},
			{metricLimit, prometheus.GaugeValue, float64(s.Max)},
			{metricDropped, prometheus.CounterValue, float64(s.Stats.Dropped)},
			{metricErrors, prometheus.CounterValue, float64(s.Errors)},
		} {
			out <- prometheus.MustNewConstMetric(number.of, number.kind, number.value, s.Name)
		}
	}
}

func metricStatus(metrics []admin.MetricStatus) (out []control.MetricStatus) {
	for _, m := range metrics {
		out = append(out, control.MetricStatus{
			Name: m.Name, Source: m.Source, Rule: m.Rule, Counts: m.Counts,
			Series: m.Stats.Series, Max: m.Max, Hidden: m.Stats.Waiting, Dropped: m.Stats.Dropped,
			Errors: m.Errors, LastError: expressionError(m.LastError),
		})
	}
	return out
}
