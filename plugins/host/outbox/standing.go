package outbox

// standing is what pick compares of consumers.
type standing struct {
	events         int  // its window
	has            int  // events that it has without an outcome
	late           int  // events that timed out and that it has not answered
	fits           bool // its window has the bytes for the event in question
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

// isBetter reports whether an event goes to the consumer rather than to other: to the one with the
// least of its window taken. again says that the event was sent before, and may have been lost; the
// higher rank counts first then.
func (s standing) isBetter(other standing, again bool) bool {
	if again && s.rank() != other.rank() {
		return s.rank() > other.rank()
	}
	return s.load(other) < other.load(s)
}

// load is compared with other.load(s): the larger value has more of its window taken. Late events
// count, because the handler may still work on them.
func (s standing) load(other standing) int { return (s.has + s.late) * other.events }

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

// standing returns how c stands for an event of size bytes. box.mu is held.
func (c *Consumer) standing(size int64) standing {
	has := c.sent.n + c.assigned.n
	return standing{
		events: c.window.Events, has: has, late: len(c.late),
		proven: c.proven, failed: c.failed, wedged: c.wedged,
		fits: has == 0 || c.sent.bytes+c.assigned.bytes+size <= c.window.Bytes,
	}
}
