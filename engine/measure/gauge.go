package measure

import (
	"container/list"
	"sync"
)

// Series is one series of a metric, as it is shown.
type Series struct {
	Labels []string // the values, in the order of Metric.Labels
	Value  float64
}

// Stats are numbers about the series of a metric.
type Stats struct {
	Series  int    // that are shown
	Waiting int    // of a gauge: that have no room
	Dropped uint64 // how often labels found no room for another series
}

// Gauge keeps the series of a gauge. It is safe for concurrent use.
type Gauge struct {
	labels, max int

	mu      sync.Mutex         // a leaf; guards what follows
	series  map[string]*sum    // by Sample.Labels
	waiting list.List          // of *sum: those that have no room, the oldest first
	behind  map[*Part]struct{} // those that lack objects
	dropped uint64
}

// sum is a series. The Gauge's mu guards all fields but labels, which do not change.
type sum struct {
	labels  string
	objects int
	total   total
	waits   *list.Element // in Gauge.waiting; nil: it is shown
}

// NewGauge returns a Gauge without series.
func NewGauge(m *Metric) *Gauge {
	return &Gauge{
		labels: len(m.Labels), max: m.Max,
		series: make(map[string]*sum), behind: make(map[*Part]struct{}),
	}
}

// Series returns the series to show, in no order. ok is false while a Part lacks objects: what there
// is then would be too little.
func (g *Gauge) Series() (all []Series, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.behind) > 0 {
		return nil, false
	}
	all = make([]Series, 0, g.shown())
	for _, s := range g.series {
		if s.waits == nil {
			all = append(all, Series{split(s.labels, g.labels), s.total.value()})
		}
	}
	return all, true
}

// IsComplete reports whether every Part has all objects.
func (g *Gauge) IsComplete() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.behind) == 0
}

// Stats returns how many series there are.
func (g *Gauge) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{Series: g.shown(), Waiting: g.waiting.Len(), Dropped: g.dropped}
}

// shown returns how many series have room. The caller holds mu.
func (g *Gauge) shown() int { return len(g.series) - g.waiting.Len() }

// change takes one contribution out and puts another one in; either may be nothing. It returns the
// series that the latter goes to, and whether it is a new one that has no room.
func (g *Gauge) change(out contribution, in Sample) (to *sum, dropped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if in.Is {
		if to = g.series[in.Labels]; to == nil {
			to = &sum{labels: in.Labels}
			g.series[in.Labels] = to
			if g.shown() > g.max && !g.makesRoom(out) {
				to.waits, dropped = g.waiting.PushBack(to), true
				g.dropped++
			}
		}
		to.objects++
		to.total.add(in.Value)
	}
	if out.to != nil {
		out.to.objects--
		out.to.total.add(-out.value)
		if out.to.objects == 0 {
			g.remove(out.to)
		}
	}
	return to, dropped
}

// makesRoom reports whether a series goes with a contribution, and none waits for its place.
func (g *Gauge) makesRoom(out contribution) bool {
	return out.to != nil && out.to.objects == 1 && out.to.waits == nil && g.waiting.Len() == 0
}

// remove removes a series, and shows one that waits in its place.
func (g *Gauge) remove(s *sum) {
	delete(g.series, s.labels)
	if s.waits != nil {
		g.waiting.Remove(s.waits)
	}
	if first := g.waiting.Front(); first != nil && g.shown() < g.max {
		g.waiting.Remove(first).(*sum).waits = nil
	}
}

// Part is what the objects of one informer contribute to a Gauge. One goroutine uses it at a time.
type Part struct {
	gauge   *Gauge
	objects map[string]contribution // by object.Object.Key
}

// contribution is what one object contributes. The zero contribution is nothing.
type contribution struct {
	to    *sum
	value float64
}

// NewPart adds a Part to g. It lacks objects until SetComplete.
func (g *Gauge) NewPart() *Part {
	p := &Part{gauge: g, objects: make(map[string]contribution)}
	p.SetComplete(false)
	return p
}

// SetComplete says whether the Part has all objects that it is to have.
func (p *Part) SetComplete(is bool) {
	p.gauge.mu.Lock()
	defer p.gauge.mu.Unlock()
	if is {
		delete(p.gauge.behind, p)
	} else {
		p.gauge.behind[p] = struct{}{}
	}
}

// Set replaces the contribution of an object. It reports whether that needs a new series for which
// there is no room.
func (p *Part) Set(key string, s Sample) (dropped bool) {
	now, has := p.objects[key]
	if has && s.Is && now.to.labels == s.Labels && now.value == s.Value {
		p.objects[key] = now // the key shares the memory of the object as it is now
		return false
	}
	if !has && !s.Is {
		return false
	}
	if now.to, dropped = p.gauge.change(now, s); now.to == nil {
		delete(p.objects, key)
		return false
	}
	now.value = s.Value
	p.objects[key] = now
	return dropped
}

// End takes the Part, with all objects, out of its Gauge.
func (p *Part) End() {
	for _, c := range p.objects {
		p.gauge.change(c, Sample{})
	}
	clear(p.objects)
	p.SetComplete(true)
}
