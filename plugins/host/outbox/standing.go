package outbox

// standing holds what pick compares consumers by. It has many fields because it compares by many
// things.
type standing struct {
	events, most   int  // its window: Events and MaxEvents
	has            int  // events that it has without an outcome, slow ones not included
	slow           int  // slow events that it has without an outcome
	probes         int  // events that probing allows beyond its window
	late           int  // events that timed out and that it has not answered
	fits           bool // its window has the bytes for the event in question
	isSlow         bool // it takes the event in question as a slow one
	proven, failed bool // see Consumer
	wedged         bool
}

// rank orders consumers for events that were sent before: the highest gets them.
func (s standing) rank() int {
	switch {
	case !s.isTrusted():
		return 0
	case !s.proven:
		return 1
	}
	return 2
}

func (s standing) isTrusted() bool { return !s.failed && !s.wedged }

// isTrusted reports whether c gives no reason for doubt. box.mu is held.
func (c *Consumer) isTrusted() bool { return !c.failed && !c.wedged }

// isBetter reports whether an event goes to the consumer rather than to other: to the one with the
// least of its window taken. again says that the event was sent before, and may have been lost; the
// higher rank counts first then.
func (s standing) isBetter(other standing, again bool) bool {
	if again && s.rank() != other.rank() {
		return s.rank() > other.rank()
	}
	return s.load(other) < other.load(s)
}

// load is compared with other.load(s): the larger value has more of its window taken. Slow and late
// events count, because the handler works on them, or may still.
func (s standing) load(other standing) int { return (s.has + s.slow + s.late) * other.events }

// limit returns how many events the consumer may have. While there is a trusted consumer, a wedged
// one gets none, and a failed one gets one at a time until it has answered an event. So an endpoint
// that fails again and again harms few events, and seldom the same one twice.
func (s standing) limit(thereIsTrusted bool) int {
	switch {
	case !thereIsTrusted || s.isTrusted():
		return s.events
	case s.wedged:
		return 0
	}
	return 1
}

// places returns how many events the consumer may have without an outcome, slow ones and probes
// included. It may have more already.
func (s standing) places(thereIsTrusted bool) int {
	limit := s.limit(thereIsTrusted)
	if limit == s.events {
		limit = max(limit, min(limit+s.probes, s.most-s.slow))
	}
	return max(s.has, limit) + s.slow
}

// hasRoom reports whether the consumer may have the event in question. It may be a probe.
func (s standing) hasRoom(thereIsTrusted bool) bool {
	return s.isSlow || s.fits && s.has+s.slow < s.places(thereIsTrusted)
}

// standing returns how c stands for an event. box.mu is held.
func (c *Consumer) standing(call *call) standing {
	has := c.sent.n + c.assigned.n
	return standing{
		events: c.window.Events, most: c.window.MaxEvents, probes: c.probing.allowed,
		has: has, slow: c.slowSent.n + c.slowAssigned.n, late: len(c.late.bySeq),
		proven: c.proven, failed: c.failed, wedged: c.wedged,
		fits:   call == nil || c.fits(has, c.sent.bytes+c.assigned.bytes, call.size),
		isSlow: call != nil && c.takesAsSlow(call),
	}
}

// fits reports whether one more event of size bytes fits into the window's bytes beside n events
// of that many bytes, which are not slow, and all slow ones. box.mu is held.
func (c *Consumer) fits(n int, bytes, size int64) bool {
	slow := c.slowSent.bytes + c.slowAssigned.bytes
	most := c.window.Bytes
	if c.probing.allowed > 0 {
		most = c.window.MaxBytes
	}
	if n > 0 {
		return bytes+size <= most && bytes+slow+size <= c.window.MaxBytes
	}
	// It goes alone, but for slow ones.
	return slow+size <= c.window.MaxBytes || slow <= c.window.MaxBytes-c.window.Bytes
}

// maySend reports whether an assigned event that is not slow may be sent. box.mu is held.
func (c *Consumer) maySend(call *call) bool {
	isProbe := c.sent.n >= c.window.Events
	return c.sent.n < c.window.Events+c.probing.allowed &&
		(!isProbe || c.sent.n+c.slowSent.n+c.slowAssigned.n < c.window.MaxEvents) &&
		c.fits(c.sent.n, c.sent.bytes, call.size)
}

// takesAsSlow reports whether an event is of an object whose last one was slow, and may be with
// the handler without a place. box.mu is held.
func (c *Consumer) takesAsSlow(call *call) bool {
	if !c.box.slow[call.object()] || !c.isTrusted() || !c.hasSlowRoom() {
		return false
	}
	w, slow := c.window, c.slowSent.bytes+c.slowAssigned.bytes+call.size
	return c.sent.n+c.slowSent.n+c.slowAssigned.n < w.MaxEvents && // there may be a probe
		slow <= max(w.MaxBytes-w.Bytes, w.MaxBytes/2) &&
		slow+c.sent.bytes+c.assigned.bytes <= w.MaxBytes
}
