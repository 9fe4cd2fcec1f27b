package gauges

import (
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

// Set keeps what the objects of one informer contribute to gauges. A step measures its object. All
// others are measured in turns: those that the informer had before a gauge came, and those that a
// timed rule has just taken in or lost. Until that is done the gauges are not shown. The informer's
// lock guards a Set.
//
// The nil Set has no gauges.
type Set struct {
	rules    Rules
	gauges   []evaluate.Gauge
	of       []*Gauge            // by gauge, as parts
	parts    []*measure.Part     // nil before Begin or TakeOver
	complete []bool              // by gauge: its part has all objects
	hasTimed bool                // a gauge is over the members of a timed rule
	keys     []string            // of objects to measure
	measured map[string]struct{} // keys that steps have measured; nil once the informer has caught up
	change   evaluate.Change     // reused for each object of a turn
}

// Rules answer for the rules of the informer, because gauges may be over their members.
type Rules struct {
	Evaluator *evaluate.Evaluator
	// Hears reports whether a rule has seen an object.
	Hears func(rule int, key string) bool
	// HearsAll reports whether a rule decides by time over all objects of the informer, or not by
	// time.
	HearsAll func(rule int) bool
}

// NewSet returns a Set without gauges.
func NewSet(rules Rules) *Set { return &Set{rules: rules, measured: make(map[string]struct{})} }

// Add adds a gauge. isTimed says that it is over the members of a timed rule.
func (s *Set) Add(g *Gauge, as evaluate.Gauge, isTimed bool) {
	s.gauges, s.of = append(s.gauges, as), append(s.of, g)
	s.complete, s.hasTimed = append(s.complete, false), s.hasTimed || isTimed
}

// IsSame reports whether both have the same gauges.
func (s *Set) IsSame(other *Set) bool {
	if s == nil || other == nil {
		return s == other
	}
	return slices.Equal(s.of, other.of)
}

// index returns the index of a gauge, or -1.
func (s *Set) index(of *Gauge) int {
	if s == nil {
		return -1
	}
	return slices.Index(s.of, of)
}

// Begin begins the parts of an informer that has no objects yet.
func (s *Set) Begin() {
	if s == nil {
		return
	}
	for _, g := range s.of {
		s.parts = append(s.parts, g.gauge.NewPart())
	}
}

// End takes the parts out of their gauges: the informer ends.
func (s *Set) End() {
	if s == nil {
		return
	}
	for _, part := range s.parts {
		part.End()
	}
}

// TakeOver takes over the parts of the Set before, and has all objects measured for gauges that are
// new here. known are the objects of the informer. Before it has caught up, CaughtUp has them
// measured.
func (s *Set) TakeOver(old *Set, known iter.Seq[*object.Object], caughtUp bool) {
	isNew := false
	if s != nil {
		for i, g := range s.of {
			if j := old.index(g); j >= 0 {
				s.parts, s.complete[i] = append(s.parts, old.parts[j]), old.complete[j]
				old.parts[j] = nil
				continue
			}
			s.parts = append(s.parts, g.gauge.NewPart())
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
	case s == nil:
	case !caughtUp && !isNew:
		s.keys, s.measured = old.keys, old.measured
	case !caughtUp: // CaughtUp measures all
	case isNew:
		s.measured = nil
		for o := range known {
			s.keys = append(s.keys, o.Key())
		}
	default:
		s.keys, s.measured = old.keys, nil
	}
}

// Measure adds to c what the object of a step contributes. tree is as in [evaluate.Step].
func (s *Set) Measure(o *object.Object, isGone bool, tree any, c *evaluate.Change) {
	if s == nil {
		return
	}
	if isGone {
		c.Measured.Gone(o)
		delete(s.measured, o.Key())
		return
	}
	if s.measured != nil {
		s.measured[o.Key()] = struct{}{}
	}
	hears := func(rule int) bool { return s.rules.Hears(rule, o.Key()) }
	s.rules.Evaluator.Measure(s.gauges, o, tree, hears, c)
}

// Apply sets what the object of c contributes.
func (s *Set) Apply(c *evaluate.Change) {
	o := c.Measured.Object
	if o == nil {
		return
	}
	key := o.Key()
	for i, part := range s.parts {
		var sample measure.Sample // the object is gone
		if len(c.Measured.Samples) > 0 {
			sample = c.Measured.Samples[i]
		}
		s.of[i].set(part, o, key, sample)
	}
}

// Later has an object measured that a rule has just taken in or lost, between steps. It reports
// whether a turn has to do that.
func (s *Set) Later(o *object.Object) bool {
	if s == nil || !s.hasTimed {
		return false
	}
	s.keys = append(s.keys, o.Key())
	return true
}

// CaughtUp has the objects measured that no step has measured. The informer has caught up.
func (s *Set) CaughtUp(known iter.Seq[*object.Object]) {
	if s == nil {
		return
	}
	for o := range known {
		if _, isDone := s.measured[o.Key()]; !isDone {
			s.keys = append(s.keys, o.Key())
		}
	}
	s.measured = nil
}

// Turn measures some of the objects that are left, and returns when to go on; the zero time means
// that all are measured. now returns the time.
func (s *Set) Turn(
	began time.Time, now func() time.Time, get func(key string) *object.Object,
) (again time.Time) {
	if s == nil {
		return time.Time{}
	}
	for len(s.keys) > 0 {
		if at := now(); at.Sub(began) > timing.Turn {
			return at.Add(timing.Lull * at.Sub(began))
		}
		key := s.keys[0]
		s.keys = s.keys[1:]
		o := get(key)
		if o == nil {
			for _, part := range s.parts {
				part.Set(key, measure.Sample{})
			}
			continue
		}
		c := &s.change
		c.Reset()
		s.Measure(o, false, nil, c)
		s.Apply(c)
	}
	s.keys = nil
	for i, g := range s.gauges {
		if !s.complete[i] && (g.Rule < 0 || s.rules.HearsAll(g.Rule)) {
			s.complete[i] = true
			s.parts[i].SetComplete(true)
		}
	}
	return time.Time{}
}
