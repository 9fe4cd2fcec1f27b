package source

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// pace slows down watches, or generations, that end as soon as they begin.
type pace struct {
	clock clock.PassiveClock

	mu    sync.Mutex // guards the fields below; no other lock is taken while it is held
	last  time.Time  // when the last one began
	delay time.Duration
	short int // how many in a row ended as soon as they began
}

// began notes that one begins.
func (p *pace) began() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = p.clock.Now()
}

// forget forgets the last one, which was ended on purpose.
func (p *pace) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Time{}
}

// next returns how long to wait before the next one, at most most. often is true if more than three
// in a row ended early. It is called when one has ended. One that lasted at least short resets the
// delay.
func (p *pace) next(short, most time.Duration) (delay time.Duration, often bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() || p.clock.Since(p.last) >= short {
		p.delay, p.short = 0, 0
		return 0, false
	}
	p.delay = min(max(2*p.delay, 50*time.Millisecond), most)
	p.short++
	return p.delay, p.short > 3
}
