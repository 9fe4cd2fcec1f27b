package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// pool shares events out between the endpoints of one handler. Each has deliveries of its own, which join while they take
// events. What one of them has not sent when it leaves goes to the others; what comes while there is none waits for the
// first to join.
type pool struct {
	limit time.Duration // of every event
	owed  debts
	left  chan struct{} // tells that one has left; one token is enough

	mu     sync.Mutex
	open   []*deliveries // those that take events
	turn   int           // who is looked at first, so that equals take turns
	parked *deliveries   // has no process ever; replaced when the first joins
	ready  chan struct{} // closed while there are some
}

// errElsewhere sends an event on to another one of the pool. No caller sees it.
var errElsewhere = errors.New("another endpoint has to take it")

func newPool(limit time.Duration) *pool {
	p := &pool{limit: limit, left: make(chan struct{}, 1), ready: make(chan struct{})}
	p.parked = newDeliveries(limit, &p.owed)
	return p
}

// member makes deliveries that belong to the pool.
func (p *pool) member() *deliveries {
	d := newDeliveries(p.limit, &p.owed)
	d.pool = p
	return d
}

// submit has one event delivered by one of the pool; see [Host.Submit].
func (p *pool) submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error)) {
	p.pick().submit(ctx, ev, func(a handler.Answer, err error) {
		if errors.Is(err, errElsewhere) {
			p.submit(ctx, ev, answered)
			return
		}
		answered(a, err)
	})
}

// pick returns the one with the least of its window taken, or where events wait.
func (p *pool) pick() *deliveries {
	p.mu.Lock()
	defer p.mu.Unlock()
	best, bestTaken, bestEvents := p.parked, 0, 0
	p.turn++
	for i := range p.open {
		d := p.open[(p.turn+i)%len(p.open)]
		taken, events := d.room()
		if i == 0 || taken*bestEvents < bestTaken*events {
			best, bestTaken, bestEvents = d, taken, events
		}
	}
	return best
}

// join is called once d takes events. The nil pool is that of who has none.
func (p *pool) join(d *deliveries) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.open = append(p.open, d)
	var parked *deliveries
	if len(p.open) == 1 {
		close(p.ready)
		parked, p.parked = p.parked, newDeliveries(p.limit, &p.owed)
	}
	p.mu.Unlock()
	if parked != nil {
		parked.stop(errElsewhere)
	}
}

// leave is called before d takes no more events, perhaps more than once.
func (p *pool) leave(d *deliveries) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.open {
		if other != d {
			continue
		}
		p.open = append(p.open[:i:i], p.open[i+1:]...)
		if len(p.open) == 0 {
			p.ready = make(chan struct{})
		}
		select {
		case p.left <- struct{}{}:
		default:
		}
		return
	}
}

// stop ends everything; all of them have left.
func (p *pool) stop(err error) {
	p.mu.Lock()
	parked := p.parked
	p.mu.Unlock()
	parked.stop(err)
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

// room is how many events all of them take at once.
func (p *pool) room() (all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.open {
		_, events := d.room()
		all += events
	}
	return all
}

// waiting is how many events wait for one that takes events.
func (p *pool) waiting() int {
	p.mu.Lock()
	parked := p.parked
	p.mu.Unlock()
	n, _, _ := parked.stats()
	return n
}
