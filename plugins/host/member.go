package host

// What a pool asks of its members, which are deliveries.

// standing is how a member stands.
type standing struct {
	events         int  // its window
	has            int  // what it was handed and has no outcome
	late           int  // what it was given up on with, and has not answered
	fits           bool // it has room for the event in question
	proven, failed bool
	wedged         bool
}

// rank is the higher the more there is to be said for it.
func (s standing) rank() int {
	switch {
	case !s.trusted():
		return 0
	case !s.proven:
		return 1
	}
	return 2
}

func (s standing) trusted() bool { return !s.failed && !s.wedged }

// load compares with other.load(s): who has more of its window taken, by what is late as well.
func (s standing) load(other standing) int { return (s.has + s.late) * other.events }

// limit is how many events it may have: its window; but while there is one to trust, none if it is wedged, and one at a time
// if it failed and has not answered any since. So one that fails again and again harms few, and seldom the same again.
func (s standing) limit(trust bool) int {
	switch {
	case !trust || s.trusted():
		return s.events
	case s.wedged:
		return 0
	}
	return 1
}

// push hands over an event.
func (d *deliveries) push(c *call) {
	d.mu.Lock()
	d.waiting.push(c)
	d.mu.Unlock()
	d.kick()
}

// empty takes back what was not sent.
func (d *deliveries) empty() (back []*call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := d.waiting.head; c != nil; c = d.waiting.head {
		d.waiting.remove(c)
		back = append(back, c)
	}
	return back
}

func (d *deliveries) isHeld() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held != nil
}

// keeps tells whether the process was given up on with an event of o, and has not answered it.
func (d *deliveries) keeps(o object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.late {
		if l.object == o {
			return true
		}
	}
	return false
}

// standing is how d stands, for an event of that size.
func (d *deliveries) standing(size int64) standing {
	d.mu.Lock()
	defer d.mu.Unlock()
	has := d.sent.n + d.waiting.n
	return standing{
		events: d.window.events, has: has, late: len(d.late), proven: d.proven, failed: d.failed, wedged: d.wedged,
		fits: has == 0 || d.sent.bytes+d.waiting.bytes+size <= d.window.bytes,
	}
}

// doubt notes whether the process leaves health checks without an answer.
func (d *deliveries) doubt(wedged bool) {
	d.mu.Lock()
	d.wedged = wedged
	d.mu.Unlock()
	d.pool.fill()
}
