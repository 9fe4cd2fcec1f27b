package source

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// pace remembers how long watches last.
type pace struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	last  time.Time // when the last watch was opened
	delay time.Duration
	short int // how many in a row ended as soon as they began
}

func (p *pace) opened() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = p.clock.Now()
}

// next is how long to wait before the next watch, and whether that many have ended early that it is worth a word. It is
// called when one has ended: what lasted at least short starts anew.
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
