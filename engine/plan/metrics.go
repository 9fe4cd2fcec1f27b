package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
)

// Metric is a metric of a source, or of a rule.
type Metric struct {
	measure.Metric
	// Digest is the digest of the metric's part of the manifest: see Source.Digest.
	Digest Digest
	Source *Source // a gauge is over its objects, or over those that are members of Rule
	Rule   *Rule   // nil: it is the source's
}

// OnlyMeasures reports whether the rule delivers nothing, and has only metrics.
func (r *Rule) OnlyMeasures() bool { return r.Handler == "" && r.Actions == nil }

// metrics compiles the metrics of a source, or of a rule.
func (b *builder) metrics(all []config.Metric, of Metric) {
	for _, m := range all {
		out := of
		out.Metric = measure.Metric{
			Name: m.Name, Help: m.Help, IsCounter: m.IsCounter, Max: m.Series,
		}
		out.Digest = DigestOf(m)
		options := expr.Options{Scope: expr.Gauge}
		if m.IsCounter {
			options.Scope = expr.Counter
		}
		number := options
		number.IsNumber = true
		out.Value = b.measured(m.Value, number, of.Source)
		for _, label := range m.Labels {
			if program := b.measured(label.Expr, options, of.Source); program != nil {
				out.Labels = append(out.Labels, measure.Label{Name: label.Name, Value: program})
			}
		}
		b.plan.Metrics = append(b.plan.Metrics, &out)
		switch {
		case m.IsCounter && of.Rule == nil:
			continue // config has reported it
		case m.IsCounter:
			of.Rule.Counters = append(of.Rule.Counters, &out.Metric)
			continue
		}
		for _, informer := range of.Source.Informers {
			informer.Gauges = append(informer.Gauges, &out)
		}
	}
}

// measured compiles an expression of a metric. It reports one that reads the text of Secrets, which
// must not be on a page.
func (b *builder) measured(text config.Text, o expr.Options, of *Source) *expr.Program {
	program := b.compile(text, o)
	if program == nil || object.ResourceName(of.Resource) != "v1/secrets" {
		return program
	}
	for _, path := range program.Paths().List() {
		if !isPublic(path) {
			b.mistake(text, "a metric cannot read %s of a Secret: everyone who reaches /metrics "+
				"would see it; it may read type, immutable and metadata, without annotations",
				cmp.Or(object.PathText(path), "the whole"))
			break
		}
	}
	return program
}

// isPublic reports whether a path of Secrets has nothing secret. Annotations may hold whole objects.
func isPublic(path []string) bool {
	if len(path) == 0 {
		return false
	}
	switch path[0] {
	case "type", "immutable", "apiVersion", "kind":
		return true
	case "metadata":
		return len(path) > 1 && slices.Contains(publicMetadata, path[1])
	}
	return false
}

var publicMetadata = strings.Fields("name namespace uid resourceVersion generation labels " +
	"creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers ownerReferences " +
	"generateName")
