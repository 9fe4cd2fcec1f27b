package dispatch

import (
	"slices"
	"time"
)

const (
	// restsAfter is how long a rule's own actions hold a place while others wait for one.
	restsAfter = 10 * time.Second
	// maxRest is how long deliveries of other lanes go first then.
	maxRest = 10 * time.Second
	// maxResting bounds the attempts that rest. Further ones keep their places.
	maxResting = 64
	// lookAfter is how often an attempt that rests looks whether it is to stop.
	lookAfter = 100 * time.Millisecond
)

// rest is an attempt at a rule's own actions that takes long. It has left its place to deliveries
// of other lanes, and stays in flight in its own lane.
type rest struct {
	lane  *Lane
	since time.Time
	goOn  chan struct{} // closed once it has a place again
}

// rest lets deliveries of other lanes have the place of a lane's attempt, if they wait for one. It
// returns once the attempt has a place again, or is to stop.
func (d *Dispatcher) rest(l *Lane, stop func() bool) {
	r := d.leave(l)
	if r == nil {
		return
	}
	look := time.NewTicker(lookAfter)
	defer look.Stop()
	for {
		select {
		case <-r.goOn:
			return
		case <-look.C:
			if stop() {
				d.goOn(func(of *rest) bool { return of == r })
			}
		}
	}
}

// leave gives a place up. It returns nil if nobody seems to need it.
func (d *Dispatcher) leave(l *Lane) *rest {
	d.mu.Lock()
	defer d.mu.Unlock()
	isWanted := !d.ready.isEmpty() || len(d.resting) > 0
	isAlone := d.to.Handler == nil && !d.opts.IsStepped // a handler's places are not for own actions
	if !isWanted || !isAlone || d.inFlight < d.to.Concurrency || len(d.resting) >= maxResting {
		return nil
	}
	r := &rest{lane: l, since: d.opts.Clock.Now(), goOn: make(chan struct{})}
	d.resting = append(d.resting, r)
	l.turn.resting++
	d.inFlight--
	d.notify()
	return r
}

// resume gives a place to the attempt that has rested longest, if that is at least for a time.
func (d *Dispatcher) resume(after time.Duration) bool {
	now, isFirst := d.opts.Clock.Now(), true
	return d.goOn(func(r *rest) bool {
		is := isFirst && now.Sub(r.since) >= after
		isFirst = false
		return is
	})
}

// goOn gives a place to the first attempt that is chosen, whether there is room or not.
func (d *Dispatcher) goOn(chosen func(*rest) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.resting, chosen)
	if i < 0 {
		return false
	}
	r := d.resting[i]
	d.resting = slices.Delete(d.resting, i, i+1)
	d.inFlight++
	r.lane.turn.resting--
	d.enlist(r.lane)
	d.notify()
	close(r.goOn)
	return true
}
