package live

import (
	"errors"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/gauges"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/plan"
)

// Metric is a metric of a manifest at work. A reload keeps it if its manifest describes it as
// before, and a gauge only if it is over the same objects.
type Metric struct {
	*plan.Metric
	Gauge    *gauges.Gauge // nil: it is a counter
	Counter  *measure.Counter
	Failures *Failures
}

// Counted adds a change that a rule selects to its counters.
func Counted(counters []*Metric, samples []measure.Sample, key delta.Key) {
	for i, s := range samples {
		m := counters[i]
		m.Failures.Add(s.Err, key)
		if m.Counter.Add(s) {
			m.IsFull()
		}
	}
}

// IsFull logs that another series found no room.
func (m *Metric) IsFull() {
	if _, ok := m.Failures.logged.Allow(m.Failures.clock.Now(), errFull.Error()); ok {
		m.Failures.log.Warn("a metric has as many series as it may: others are not shown",
			"series", m.Max)
	}
}

var errFull = errors.New("full")
