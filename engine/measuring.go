package engine

import (
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
)

// measuring keeps what the objects of one informer contribute to gauges. A step measures its object.
// All others are measured in turns: those that the informer had before a gauge came, and those of
// which a timed rule is told. Until that is done the gauges are not shown. The informer's lock guards
// the fields.
//
// A nil measuring has no gauges.
type measuring struct {
	gauges   []evaluate.Gauge
	metrics  []*metric           // by gauge, as parts
	parts    []*measure.Part     // nil before begin or takeOver
	complete []bool              // by gauge: its part has all objects
	hasTimed bool                // a gauge is over the members of a timed rule
	keys     []string            // of objects to measure
	measured map[string]struct{} // keys that steps have measured; nil once the informer has caught up
}

// bindGauges sets the gauges, once the rules are set.
func (b *builder) bindGauges(in *intake) {
	if len(in.planned.Gauges) == 0 {
		return
	}
	m := &measuring{measured: make(map[string]struct{})}
	for _, planned := range in.planned.Gauges {
		of := -1
		if planned.Rule != nil {
			of = slices.Index(in.rules, b.rules[planned.Rule])
			m.hasTimed = m.hasTimed || planned.Rule.IsTimed()
		}
		m.gauges = append(m.gauges, evaluate.Gauge{Metric: &planned.Metric, Rule: of})
		m.metrics = append(m.metrics, b.metrics[planned])
	}
	m.complete = make([]bool, len(m.gauges))
	in.measuring = m
}

// isSame reports whether both have the same gauges.
func (m *measuring) isSame(other *measuring) bool {
	if m == nil || other == nil {
		return m == other
	}
	return slices.Equal(m.metrics, other.metrics)
}

// begin begins the parts of an informer that has no objects yet.
func (m *measuring) begin() {
	if m == nil {
		return
	}
	for _, metric := range m.metrics {
		m.parts = append(m.parts, metric.gauge.NewPart())
	}
}

// end takes the parts out of their gauges: the informer ends.
func (m *measuring) end() {
	if m == nil {
		return
	}
	for _, part := range m.parts {
		part.End()
	}
}

// takeOverGauges takes up the parts of the intake before, and measures all objects for gauges that
// are new here.
func (in *intake) takeOverGauges(old *measuring, known iter.Seq[*object.Object]) {
	m, isNew := in.measuring, false
	if m != nil {
		for i, metric := range m.metrics {
			if j := old.index(metric); j >= 0 {
				m.parts, m.complete[i] = append(m.parts, old.parts[j]), old.complete[j]
				old.parts[j] = nil
				continue
			}
			m.parts = append(m.parts, metric.gauge.NewPart())
			isNew = true
		}
	}
	if old != nil {
		for _, part := range old.parts {
			if part != nil {
				part.End()
			}
		}
	}
	switch {
	case m == nil:
	case !in.learns.caughtUp && !isNew:
		m.keys, m.measured = old.keys, old.measured
	case !in.learns.caughtUp: // CaughtUp measures all
	case isNew:
		m.measured = nil
		for o := range known {
			m.keys = append(m.keys, o.Key())
		}
	default:
		m.keys, m.measured = old.keys, nil
	}
}

// moveGauges has the gauges not shown whose informers are about to be others, until settled is called.
func (r *reload) moveGauges() (settled func()) {
	var moved []*metric
	add := func(m, other *measuring) {
		if m == nil {
			return
		}
		for _, metric := range m.metrics {
			if other.index(metric) < 0 {
				moved = append(moved, metric)
				metric.moves.Store(true)
			}
		}
	}
	for _, in := range r.next.intakes {
		if in.before != nil {
			add(in.measuring, in.before.measuring)
		} else if in.isNew {
			add(in.measuring, nil)
		}
	}
	for _, in := range r.dropped {
		add(in.measuring, nil)
	}
	return func() {
		for _, metric := range moved {
			metric.moves.Store(false)
		}
	}
}

// index returns the index of a metric, or -1.
func (m *measuring) index(of *metric) int {
	if m == nil {
		return -1
	}
	return slices.Index(m.metrics, of)
}

// measure adds to c what the object of a step contributes.
func (in *intake) measure(o *object.Object, isGone bool, tree any, c *evaluate.Change) {
	m := in.measuring
	if m == nil {
		return
	}
	if isGone {
		c.Measured.Gone(o)
		delete(m.measured, o.Key())
		return
	}
	if m.measured != nil {
		m.measured[o.Key()] = struct{}{}
	}
	hears := func(rule int) bool { return in.hears(rule, o.Key()) }
	in.evaluator.Measure(m.gauges, o, tree, hears, c)
}

// hears reports whether a rule has seen an object.
func (in *intake) hears(rule int, key string) bool {
	return !in.learns.isDeaf(rule) && !in.learns.owes(rule, key)
}

// applyMeasured sets what the object of c contributes.
func (in *intake) applyMeasured(c *evaluate.Change) {
	o := c.Measured.Object
	if o == nil {
		return
	}
	key := o.Key()
	for i, part := range in.measuring.parts {
		var s measure.Sample // the object is gone
		if len(c.Measured.Samples) > 0 {
			s = c.Measured.Samples[i]
		}
		of := in.measuring.metrics[i]
		of.failures.addOn(s.Err, o)
		if part.Set(key, s) {
			of.isFull()
		}
	}
}

// measureLater has an object measured that a rule has been told of, or was told is gone.
func (in *intake) measureLater(o *object.Object) {
	if m := in.measuring; m != nil && m.hasTimed {
		m.keys = append(m.keys, o.Key())
		in.informer.Wake()
	}
}

// measureKnown has the objects measured that no step has measured. The informer has caught up.
func (in *intake) measureKnown(known iter.Seq[*object.Object]) {
	m := in.measuring
	if m == nil {
		return
	}
	for o := range known {
		if _, isDone := m.measured[o.Key()]; !isDone {
			m.keys = append(m.keys, o.Key())
		}
	}
	m.measured = nil
}

// measureSome measures some of the objects that are left, and returns when to go on; the zero time
// means that all are measured.
func (in *intake) measureSome(
	began time.Time, get func(key string) *object.Object,
) (again time.Time) {
	m := in.measuring
	if m == nil {
		return time.Time{}
	}
	for len(m.keys) > 0 {
		in.now = in.clock.Now()
		if in.now.Sub(began) > turn {
			return in.now.Add(lull * in.now.Sub(began))
		}
		key := m.keys[0]
		m.keys = m.keys[1:]
		c := &in.change
		c.Reset()
		o := get(key)
		if o == nil {
			for _, part := range m.parts {
				part.Set(key, measure.Sample{})
			}
			continue
		}
		in.measure(o, false, nil, c)
		in.applyMeasured(c)
	}
	m.keys = nil
	for i, g := range m.gauges {
		if !m.complete[i] && (g.Rule < 0 || in.hearsAll(g.Rule)) {
			m.complete[i] = true
			m.parts[i].SetComplete(true)
		}
	}
	return time.Time{}
}

// hearsAll reports whether a rule decides by time over all objects of the informer, or not by time.
func (in *intake) hearsAll(rule int) bool {
	return !in.rules[rule].IsTimed() ||
		!in.learns.isDeaf(rule) && in.learns.catchUpOf(rule) == nil
}
