package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Metric is a metric of the daemon's /metrics that a Source or a Rule defines.
type Metric struct {
	Name      string
	At        Text // the name
	Help      string
	IsCounter bool
	Value     Text    // zero: 1
	Labels    []Label // sorted by name
	Series    int     // at most
}

// Label is a label of a metric.
type Label struct {
	Name string
	Expr Text
}

// Bounds of metrics.
const (
	maxMetrics           = 64  // of one manifest
	maxMetricLabels      = 16  // of one metric
	maxMetricName        = 200 // bytes, also of labels
	maxMetricHelp        = 500 // bytes
	minSeries, maxSeries = 1, 100_000
	defaultSeries        = 1000
)

// counterSuffix is how the names of counters end.
const counterSuffix = "_total"

var metricTypes = []string{"gauge", "counter"}

// metricNames are the names that Prometheus allows. It leaves those with a colon to its own rules.
var metricNames = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// reservedMetrics are the beginnings of names that the daemon uses itself.
var reservedMetrics = []string{"informd_", "go_", "process_", "promhttp_"}

// metrics reads the metrics of a manifest. checkType reports one whose type does not go there, at its
// type.
func (r *reader) metrics(n *yaml.Node, checkType func(at *yaml.Node, m Metric)) []Metric {
	items := r.list(n, "spec.metrics", "metrics")
	if len(items) > maxMetrics {
		r.mistake(items[maxMetrics], "spec.metrics has %d elements, more than %d",
			len(items), maxMetrics)
		items = items[:maxMetrics]
	}
	var out []Metric
	for i, item := range items {
		what := fmt.Sprintf("spec.metrics[%d]", i)
		spec := r.mapping(item, item, what, metricFields)
		m := Metric{
			Help:      spec.str("help"),
			IsCounter: spec.choice("type") == 1,
			Value:     spec.expression("value"),
			Labels:    r.metricLabels(spec.get("labels"), what+".labels"),
			Series:    spec.whole("series"),
		}
		if len(m.Help) > maxMetricHelp {
			r.mistake(spec.get("help"), "%s.help has %d bytes, more than %d",
				what, len(m.Help), maxMetricHelp)
		}
		at := spec.get("name")
		m.Name = r.str(at, what+".name")
		if spec.has("type") && r.reported[spec.value["type"]] { // a mistake is enough
			m.IsCounter = strings.HasSuffix(m.Name, counterSuffix)
		}
		if m.Name != "" {
			m.At = r.text(at)
			r.metricName(at, m)
		}
		checkType(cmp.Or(spec.key["type"], item), m)
		out = append(out, m)
	}
	return out
}

// metricName checks the name of a metric, and records it.
func (r *reader) metricName(at *yaml.Node, m Metric) {
	isCount := strings.HasSuffix(m.Name, counterSuffix)
	switch {
	case !metricNames.MatchString(m.Name) || len(m.Name) > maxMetricName:
		r.mistake(at, "the name of a metric has letters, digits and _, no digit first, and at most "+
			"%d characters, not %s", maxMetricName, quote(m.Name))
	case slices.ContainsFunc(reservedMetrics, func(s string) bool { return strings.HasPrefix(m.Name, s) }):
		r.mistake(at, "metrics whose names begin with %s are informd's own: choose another name",
			oneOf(reservedMetrics))
	case m.IsCounter && !isCount:
		r.mistake(at, "the name of a counter ends with %s: write %s", counterSuffix, quote(m.Name+counterSuffix))
	case !m.IsCounter && isCount:
		r.mistake(at, "a name that ends with %s is one of a counter: give it type: counter, "+
			"or another name", counterSuffix)
	}
	if first, ok := r.metricsAt[m.Name]; ok {
		r.mistake(at, "there is another metric named %s, at %s: a metric belongs to one manifest",
			quote(m.Name), first)
		return
	}
	r.metricsAt[m.Name] = m.At.Position(0)
}

func (r *reader) metricLabels(n *yaml.Node, what string) []Label {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.mistake(n, "%s must be a mapping of names to expressions, not %s", what, describe(n))
		return nil
	}
	if len(n.Content)/2 > maxMetricLabels {
		r.mistake(n, "%s has %d names, more than %d", what, len(n.Content)/2, maxMetricLabels)
		return nil
	}
	var out []Label
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !metricNames.MatchString(key.Value) || len(key.Value) > maxMetricName:
			r.mistake(key, "the name of a label has letters, digits and _, no digit first, and at "+
				"most %d characters, not %s", maxMetricName, quote(key.Value))
		case strings.HasPrefix(key.Value, "__"), key.Value == "le", key.Value == "quantile":
			r.mistake(key, "Prometheus uses the label %s itself: choose another name", quote(key.Value))
		}
		if expr := r.expression(value, what+"."+key.Value); !expr.IsZero() {
			out = append(out, Label{Name: key.Value, Expr: expr})
		}
	}
	slices.SortFunc(out, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// sourceMetrics reads the metrics of a source, which has no changes to count.
func (r *reader) sourceMetrics(n *yaml.Node) []Metric {
	return r.metrics(n, func(at *yaml.Node, m Metric) {
		if m.IsCounter {
			r.mistake(at, "a counter counts changes, which a rule selects: put it into a Rule")
		}
	})
}

// ruleMetrics reads the metrics of a rule.
func (r *reader) ruleMetrics(spec mapping) []Metric {
	return r.metrics(spec.get("metrics"), func(at *yaml.Node, m Metric) {
		if !m.IsCounter && spec.has("schedule") && !spec.has("source") {
			r.mistake(at, "a gauge needs a source, and the rule has none: it is about objects; "+
				"name a source, or give the metric type: counter")
		}
	})
}

// aboutDeliveries are fields that mean nothing to a rule that delivers nothing.
var aboutDeliveries = []string{
	"payload", "attach", "group", "count", "delivery", "prune", "ownChanges",
}

// metricsOnly checks the fields of a rule that has neither a handler nor actions.
func (r *reader) metricsOnly(spec mapping, metrics []Metric) {
	for _, field := range aboutDeliveries {
		if spec.has(field) {
			r.mistake(spec.key[field], "spec.%s is about what the rule delivers, and it has only "+
				"metrics: leave it out, or give the rule a spec.handler", field)
		}
	}
	if len(metrics) == 0 || slices.ContainsFunc(metrics, func(m Metric) bool { return m.IsCounter }) {
		return
	}
	for _, field := range []string{"when", "events", "schedule", "resync"} {
		if spec.has(field) {
			r.mistake(spec.key[field], "spec.%s selects changes, and the rule has only gauges, which "+
				"are about its members: leave it out; where says which objects are members", field)
		}
	}
}
