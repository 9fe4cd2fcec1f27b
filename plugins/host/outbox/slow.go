package outbox

import (
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// This file keeps a slow object alone: an event that hangs takes no place from the others.
//
// A handler works on up to Window.Events events at once. An event stops counting towards that once
// it is slow: an event that was sent after it has been answered, and it has taken slowFactor times
// as long as that one and as the handler's answers typically take. So a handler that is slow as a
// whole gets no more than Window.Events. An object whose last event was slow is remembered, and its
// next event counts as slow from the beginning. Slow events have a bound of their own, up to
// Window.MaxEvents in all. Beyond it they count as the others do.
//
// Events that hang may take all places before any other could overtake them. If nothing was
// answered for a while then, the consumer probes: it allows one event more. If the handler answers
// that one first, the others are slow. If not, the next probe follows after twice the time. A
// handler that hangs as a whole gets no more in addition than maxProbes, or Window.Events if that
// is less. The caller chooses the events: see dispatch.Recipient.

const (
	// slowFactor is how much longer than others an event takes at least if it is slow.
	slowFactor = 4
	// maxProbes bounds the events that probing allows in addition to Window.Events, which is a
	// second bound.
	maxProbes = 16
	// coldPause is the time without an answer until the first probe, as long as the handler has
	// answered nothing. Later it is slowFactor times a typical answer's, at least minPause.
	coldPause = 20 * time.Millisecond
	minPause  = 5 * time.Millisecond
	// maxSlowObjects bounds the slow objects that an outbox remembers. It forgets others.
	maxSlowObjects = 1024
)

// pace is how long a handler took for its last answers, slow events not included.
type pace struct {
	took [16]time.Duration // a ring
	n    int               // answers so far
}

func (p *pace) add(took time.Duration) {
	p.took[p.n%len(p.took)] = took
	p.n++
}

// typical returns the median, or 0 before the first answer.
func (p *pace) typical() time.Duration {
	if p.n == 0 {
		return 0
	}
	took := p.took // a copy
	known := took[:min(p.n, len(took))]
	slices.Sort(known)
	return known[(len(known)-1)/2]
}

// probing is a consumer's permission to send beyond Window.Events.
type probing struct {
	timer   *time.Timer // runs probe; nil before it was first needed
	isArmed bool        // the timer is running
	allowed int         // events that may go beyond Window.Events now
	unheard int         // probes since the last answer
	quiet   time.Time   // when an event was sent or answered last
}

// pause returns how long nothing must be answered until the next probe.
func (c *Consumer) pause() time.Duration {
	pause := coldPause
	if c.pace.n > 0 {
		pause = max(minPause, slowFactor*c.pace.typical())
	}
	return min(pause<<min(c.probing.unheard, 16), c.box.limit)
}

// isBlocked reports whether events that are with the handler keep others from it. box.mu is held.
func (c *Consumer) isBlocked() bool {
	return len(c.bySeq) > 0 && (c.sent.n >= c.window.Events+c.probing.allowed ||
		c.box.waiting.n > 0 || c.assigned.n > 0 && !c.maySend(c.assigned.head()))
}

// watch starts the timer for a probe if the consumer is blocked. box.mu is held.
func (c *Consumer) watch() {
	p := &c.probing
	if !p.isArmed && c.mayProbe() {
		c.arm(c.pause())
	}
}

// mayProbe reports whether the consumer is blocked, and probing may allow one more event. box.mu is
// held.
func (c *Consumer) mayProbe() bool {
	return c.attached && c.held == nil && c.isBlocked() && c.hasSlowRoom() &&
		c.probing.allowed < min(maxProbes, c.window.Events)
}

func (c *Consumer) arm(wait time.Duration) {
	c.probing.isArmed = true
	if c.probing.timer == nil {
		c.probing.timer = time.AfterFunc(wait, c.probe)
		return
	}
	c.probing.timer.Reset(wait)
}

// probe allows one more event, if nothing was answered for long enough.
func (c *Consumer) probe() {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	p := &c.probing
	p.isArmed = false
	if !c.mayProbe() {
		return
	}
	now := time.Now()
	if wait := p.quiet.Add(c.pause()).Sub(now); wait > 0 {
		c.arm(wait)
		return
	}
	p.allowed++
	p.unheard++
	p.quiet = now
	c.box.share()
	c.box.grow()
	c.kick()
	c.watch()
}

// stopProbing forgets the probes of a session. box.mu is held.
func (c *Consumer) stopProbing() {
	p := &c.probing
	p.allowed, p.unheard = 0, 0
	if p.isArmed && p.timer.Stop() {
		p.isArmed = false
	}
}

// heard notes the answers of one message: how long they took, and which events they overtook.
// box.mu is held.
func (c *Consumer) heard(answers []Outcome, now time.Time) {
	for _, a := range answers {
		if a.call != nil {
			c.probing.quiet, c.probing.unheard = now, 0
			c.learn(a.call, c.age(a.call, now))
		}
	}
	if c.sent.n == 0 {
		c.probing.allowed = 0
		return
	}
	typical := c.pace.typical()
	for _, a := range answers {
		if a.call != nil {
			c.overtake(a.Seq, slowFactor*max(typical, c.age(a.call, now)), now)
		}
	}
	c.probing.allowed = max(0, min(c.probing.allowed, c.sent.n-c.window.Events))
}

// learn notes how long an answer took. box.mu is held.
func (c *Consumer) learn(call *call, took time.Duration) {
	if !call.isSlow || c.pace.n == 0 {
		c.pace.add(took)
	}
	if call.isSlow && took <= slowFactor*c.pace.typical() {
		delete(c.box.slow, call.object())
	}
}

// overtake marks events as slow that were sent before number seq and have taken longer than longer.
// box.mu is held.
func (c *Consumer) overtake(seq uint64, longer time.Duration, now time.Time) {
	for {
		// The head is the oldest, so that all behind it are younger and have a higher number.
		call := c.sent.head()
		if call == nil || call.seq >= seq || c.age(call, now) <= longer || !c.hasSlowRoom() {
			return
		}
		c.sent.remove(call)
		call.isSlow = true
		c.slowSent.insert(call)
		c.box.rememberSlow(call.object())
		c.box.grow()
	}
}

// hasSlowRoom reports whether one more event may be slow. box.mu is held.
func (c *Consumer) hasSlowRoom() bool {
	n := c.slowSent.n + c.slowAssigned.n + c.late.slow
	return n < c.window.MaxEvents-c.window.Events
}

// age returns how long the handler has had an event. box.mu is held.
func (c *Consumer) age(call *call, now time.Time) time.Duration {
	return now.Sub(call.deadline.Add(-c.box.limit))
}

// rememberSlow makes the next event of an object count as slow from the beginning. o.mu is held.
func (o *Outbox) rememberSlow(obj object) {
	if o.slow[obj] {
		return
	}
	if len(o.slow) >= maxSlowObjects {
		for other := range o.slow {
			delete(o.slow, other)
			break
		}
	}
	// Its strings may be parts of an object's JSON, which must not be kept.
	obj.namespace, obj.name = strings.Clone(obj.namespace), strings.Clone(obj.name)
	o.slow[obj] = true
}

// Slow describes the events that a handler is slow with.
type Slow struct {
	Events int // slow events, which take no places
	// IsFull reports that events take all places, and that none was answered for at least a second:
	// the other events wait for them.
	IsFull bool
	// Longest are the events that the handler has had longest, at most MaxLongest: slow ones, and
	// if IsFull is set those that take the places.
	Longest []Working
}

// MaxLongest bounds Slow.Longest.
const MaxLongest = 10

// Working is an event that a handler is working on.
type Working struct {
	Rule            string
	Resource        handler.Resource
	Namespace, Name string
	Since           time.Time // when it was sent
}

// Slow describes the events that the handler is slow with.
func (c *Consumer) Slow() Slow {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	s := Slow{
		Events: c.slowSent.n,
		IsFull: (c.sent.n >= c.window.Events || c.isBlocked()) &&
			time.Since(c.probing.quiet) >= time.Second,
	}
	lists := []*fifo{&c.slowSent}
	if s.IsFull {
		lists = append(lists, &c.sent)
	}
	for _, list := range lists {
		n := 0
		for call := list.head(); call != nil && n < MaxLongest; call = call.next() {
			ev := call.event
			s.Longest = append(s.Longest, Working{
				Rule: ev.Rule, Resource: ev.Resource, Namespace: ev.Namespace, Name: ev.Name,
				Since: call.deadline.Add(-c.box.limit),
			})
			n++
		}
	}
	s.shorten()
	return s
}

// Add adds what another consumer is slow with.
func (s *Slow) Add(other Slow) {
	s.Events += other.Events
	s.IsFull = s.IsFull || other.IsFull
	s.Longest = append(slices.Clip(s.Longest), other.Longest...)
	s.shorten()
}

// shorten sorts Longest, and drops what is too much.
func (s *Slow) shorten() {
	slices.SortStableFunc(s.Longest, func(a, b Working) int { return a.Since.Compare(b.Since) })
	s.Longest = s.Longest[:min(len(s.Longest), MaxLongest)]
}
