package measure

import "sync"

// Counter keeps the series of a counter. It is safe for concurrent use.
type Counter struct {
	labels, max int

	mu      sync.Mutex        // a leaf; guards what follows
	series  map[string]*total // by Sample.Labels
	dropped uint64
}

// NewCounter returns a Counter without series.
func NewCounter(m *Metric) *Counter {
	return &Counter{labels: len(m.Labels), max: m.Max, series: make(map[string]*total)}
}

// Add adds a sample, unless it makes a series that has no room: then it reports that.
func (c *Counter) Add(s Sample) (dropped bool) {
	if !s.Is {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.series[s.Labels]
	if to == nil {
		if len(c.series) >= c.max {
			c.dropped++
			return true
		}
		to = new(total)
		c.series[s.Labels] = to
	}
	to.add(s.Value)
	return false
}

// Series returns all series, in no order.
func (c *Counter) Series() []Series {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Series, 0, len(c.series))
	for labels, t := range c.series {
		all = append(all, Series{split(labels, c.labels), t.value()})
	}
	return all
}

// Stats returns how many series there are.
func (c *Counter) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Series: len(c.series), Dropped: c.dropped}
}
