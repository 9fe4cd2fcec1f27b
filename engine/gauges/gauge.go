package gauges

import (
	"sync/atomic"

	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
)

// Gauge is a gauge at work, over the objects of any number of informers. It is safe for concurrent
// use.
type Gauge struct {
	gauge   *measure.Gauge
	failed  func(err error, o *object.Object)
	dropped func()
	moves   atomic.Bool // a reload exchanges its informers, so that it is not shown
}

// New returns a gauge without objects. It calls failed when an expression fails for an object, and
// dropped when a series has no room.
func New(m *measure.Metric, failed func(err error, o *object.Object), dropped func()) *Gauge {
	return &Gauge{gauge: measure.NewGauge(m), failed: failed, dropped: dropped}
}

// Series returns the series to show, in no order. ok is false while objects have yet to be
// measured.
func (g *Gauge) Series() (all []measure.Series, ok bool) {
	all, ok = g.gauge.Series()
	return all, ok && !g.moves.Load()
}

// IsComplete reports whether all objects are measured.
func (g *Gauge) IsComplete() bool { return g.gauge.IsComplete() && !g.moves.Load() }

// Stats returns how many series there are.
func (g *Gauge) Stats() measure.Stats { return g.gauge.Stats() }

// set sets what an object contributes by a part. key is its key.
func (g *Gauge) set(part *measure.Part, o *object.Object, key string, s measure.Sample) {
	if s.Err != nil {
		g.failed(s.Err, o)
	}
	if part.Set(key, s) {
		g.dropped()
	}
}

// Moving are gauges that are not shown, because a reload exchanges their informers. The zero Moving
// are none.
type Moving struct{ gauges []*Gauge }

// Add adds the gauges of s that are not in other.
func (m *Moving) Add(s, other *Set) {
	if s == nil {
		return
	}
	for _, g := range s.of {
		if other.index(g) < 0 {
			m.gauges = append(m.gauges, g)
			g.moves.Store(true)
		}
	}
}

// End shows the gauges again, once they are complete.
func (m *Moving) End() {
	for _, g := range m.gauges {
		g.moves.Store(false)
	}
}
