package host

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// pool shares events out between the endpoints of one handler. Each has deliveries of its own, which join while they take
// events. What none of them has room for waits in the pool for whichever has room first: no event waits for one
// endpoint while another could take it. What an endpoint has not sent when it leaves
// comes back.
//
// An endpoint that gave reason to doubt gets less, see limit, as long as there is one that did not.
type pool struct {
	limit time.Duration // of every event
	owed  debts
	left  chan struct{} // tells that one has left or is gone; one token is enough

	mu      sync.Mutex    // is locked before that of any deliveries
	open    []*deliveries // those that take events
	leaving []*deliveries // those that take none any more, and have some
	turn    int           // who is looked at first, so that equals take turns
	queue   fifo          // what waits; as many as callers submit
	stopped error         // set by stop: nothing is delivered any more
	ready   chan struct{} // closed while there are some that take events
}

func newPool(limit time.Duration) *pool {
	return &pool{limit: limit, left: make(chan struct{}, 1), ready: make(chan struct{})}
}

// member makes deliveries that belong to the pool.
func (p *pool) member() *deliveries {
	d := newDeliveries(p.limit, &p.owed)
	d.pool = p
	return d
}

// submit has one event delivered by one of the pool; see [Host.Submit].
func (p *pool) submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error)) {
	c := newCall(ev, answered)
	p.mu.Lock()
	err := p.enter(ctx, c)
	p.mu.Unlock()
	if err != nil {
		answered(handler.Answer{}, err)
	}
}

// enter is called with p.mu held, as are those below that do not lock it.
func (p *pool) enter(ctx context.Context, c *call) error {
	if err := c.fit(ctx); err != nil {
		return err
	}
	if p.stopped != nil {
		return p.stopped
	}
	if p.owed.settle(c.object()) {
		return lost(errEndedWith)
	}
	c.watch(ctx, p.giveUp)
	if d := p.keeper(c.object()); d != nil {
		p.hand(c, d)
		return nil
	}
	p.queue.push(c)
	p.share()
	return nil
}

// keeper is who was given up on with an event of o, and may still be busy with it: it says so, or waits for its end, where
// another one could not know.
func (p *pool) keeper(o object) *deliveries {
	i := slices.IndexFunc(p.open, func(d *deliveries) bool { return d.keeps(o) })
	if i < 0 {
		return nil
	}
	return p.open[i]
}

func (p *pool) hand(c *call, d *deliveries) {
	c.at = d
	d.push(c)
}

// share hands out what waits, as far as there is room.
func (p *pool) share() {
	for c := p.queue.head; c != nil; c = p.queue.head {
		d := p.pick(c)
		if d == nil {
			return
		}
		p.queue.remove(c)
		p.hand(c, d)
	}
}

// fill is called when there may be room. The nil pool is that of who has none.
func (p *pool) fill() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share()
}

// trust tells whether there is a member to trust.
func (p *pool) trust() bool {
	return slices.ContainsFunc(p.open, func(d *deliveries) bool { return d.standing(0).trusted() })
}

// pick returns the one with the least of its window taken that has room for c; nil if none has. What was sent before, and
// may have been lost, goes to the one of those with room for which the most is to be said.
func (p *pool) pick(c *call) (best *deliveries) {
	trust := p.trust()
	again := c.event.Attempt > 1
	var least standing
	p.turn++
	for i := range p.open {
		d := p.open[(p.turn+i)%len(p.open)]
		s := d.standing(c.size)
		switch {
		case !s.fits || s.has >= s.limit(trust):
			continue
		case best == nil:
		case again && s.rank() != least.rank():
			if s.rank() < least.rank() {
				continue
			}
		case s.load(least) >= least.load(s):
			continue
		}
		best, least = d, s
	}
	return best
}

// giveUp ends a call that the caller does not want any more.
func (p *pool) giveUp(c *call, why error) {
	p.mu.Lock()
	ok := c.at != nil && c.at.withdraw(c)
	if c.at == nil && c.in != nil {
		p.queue.remove(c)
		ok = true
	}
	p.share()
	p.mu.Unlock()
	if ok {
		tell([]outcome{{call: c, err: why}})
	}
}

// join is called once d takes events, unless it is held by then.
func (p *pool) join(d *deliveries) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.isHeld() {
		return
	}
	p.open = append(p.open, d)
	if len(p.open) == 1 {
		close(p.ready)
	}
	p.share()
}

// leave is called when d takes no more events, perhaps more than once. What it has not sent comes back.
func (p *pool) leave(d *deliveries) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.open, d)
	if i < 0 {
		return
	}
	p.open = slices.Delete(p.open, i, i+1)
	p.leaving = append(p.leaving, d)
	if len(p.open) == 0 {
		p.ready = make(chan struct{})
	}
	p.lookAgain()
	for _, c := range d.empty() {
		c.at = nil
		p.queue.push(c)
	}
	p.share()
}

// lookAgain asks for a look at the name's addresses.
func (p *pool) lookAgain() {
	select {
	case p.left <- struct{}{}:
	default:
	}
}

// gone is called before what d was sent is lost.
func (p *pool) gone(d *deliveries) {
	if p == nil {
		return
	}
	p.leave(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = slices.DeleteFunc(p.leaving, func(other *deliveries) bool { return other == d })
}

// stop ends everything; all of them have left.
func (p *pool) stop(err error) {
	var ended []outcome
	p.mu.Lock()
	p.stopped = err
	for c := p.queue.head; c != nil; c = p.queue.head {
		p.queue.remove(c)
		ended = append(ended, outcome{call: c, err: err})
	}
	p.mu.Unlock()
	tell(ended)
}

// wait waits until there is one that takes events.
func (p *pool) wait(ctx context.Context) error {
	p.mu.Lock()
	ready := p.ready
	p.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// room is how many events there may be at once: what the endpoints take, and what is still with those that take no more, so
// that it keeps nobody else from work. 0: there is no endpoint.
func (p *pool) room() (all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	trust := p.trust()
	for _, d := range p.open {
		s := d.standing(0)
		all += max(s.has, s.limit(trust))
	}
	for _, d := range p.leaving {
		all += d.standing(0).has
	}
	return all
}

// waiting is how many events wait for one that has room.
func (p *pool) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.n
}
