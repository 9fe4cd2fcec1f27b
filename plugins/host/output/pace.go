package output

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The pace at which the daemon reads what a process writes: a burst in bytes, and bytes per second
// after it. It exceeds what the lines that pass may measure. Beyond it the process waits, and the
// daemon spends no time on it.
const (
	paceBurst = 256 << 10
	paceRate  = 2 << 20
)

// pace slows down a process that writes too much, on all its streams together.
type pace struct {
	over    chan struct{} // closed when nobody needs to wait any more
	limiter *rate.Limiter
}

func newPace() *pace {
	return &pace{over: make(chan struct{}), limiter: rate.NewLimiter(paceRate, paceBurst)}
}

// wait blocks until n more bytes may be read. n is at most paceBurst.
func (p *pace) wait(n int) {
	now := time.Now()
	d := p.limiter.ReserveN(now, n).DelayFrom(now)
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.over:
	}
}

// missedPause is the least time between two reports of dropped lines.
const missedPause = time.Second

// valve lets a burst of lines pass and then so many per second. It counts the lines that it drops.
type valve struct {
	limiter *rate.Limiter

	mu     sync.Mutex // guards missed and report
	missed int        // dropped lines that were not reported yet
	report rate.Sometimes
}

func newValve(burst, perSecond int) *valve {
	return &valve{
		limiter: rate.NewLimiter(rate.Limit(perSecond), burst),
		report:  rate.Sometimes{Interval: missedPause},
	}
}

// isFull reports whether no line can pass at present, whatever it says. It then counts one as
// dropped.
func (v *valve) isFull() bool {
	full := v.limiter.Tokens() < 1
	if full {
		v.drop()
	}
	return full
}

// pass reports whether a line may pass. With one that may, at most once per missedPause, it returns
// the number of lines dropped since the last report.
func (v *valve) pass() (ok bool, missed int) {
	if !v.limiter.Allow() {
		v.drop()
		return false, 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.missed > 0 {
		v.report.Do(func() { missed, v.missed = v.missed, 0 })
	}
	return true, missed
}

func (v *valve) drop() {
	v.mu.Lock()
	v.missed++
	v.mu.Unlock()
}

// rest returns the number of dropped lines that were not reported yet, and forgets them.
func (v *valve) rest() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	missed := v.missed
	v.missed = 0
	return missed
}
