package evaluate

import (
	"fmt"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
)

// Gauge is a gauge over the objects of the informer, or over those that a rule has inside.
type Gauge struct {
	*measure.Metric
	Rule int // -1: all objects
}

// Measured says what an object contributes to each gauge from now on.
type Measured struct {
	Object  *object.Object   // nil: nothing was measured
	Samples []measure.Sample // by gauge; none if the object is gone
}

// Gone sets that an object contributes nothing.
func (m *Measured) Gone(o *object.Object) { m.Object, m.Samples = o, m.Samples[:0] }

// Measure sets what an object contributes to gauges once c is committed. tree is as in [Step].
// hears says that a rule has seen the object: a timed rule has no object inside that it has not
// seen.
func (e *Evaluator) Measure(
	gauges []Gauge, o *object.Object, tree any, hears func(rule int) bool, c *Change,
) {
	defer e.scope.Forget()
	e.Remember(o, tree)
	c.Measured.Gone(o)
	for i := range gauges {
		c.Measured.Samples = append(c.Measured.Samples, e.measure(&gauges[i], o, hears, c))
	}
}

func (e *Evaluator) measure(
	g *Gauge, o *object.Object, hears func(int) bool, c *Change,
) (s measure.Sample) {
	defer func() {
		if p := recover(); p != nil {
			s = measure.Sample{Err: fmt.Errorf("panic: %T", p)}
		}
	}()
	if g.Rule >= 0 {
		isUnseen := e.rules[g.Rule].IsTimed() && !hears(g.Rule)
		ignored := Change{Waits: c.Waits} // the evaluation of the step itself reports failures
		if isUnseen || !e.IsInside(g.Rule, o, &ignored) {
			return measure.Sample{}
		}
	}
	return g.Sample(&expr.Env{Object: e.scope.Tree(o)})
}
