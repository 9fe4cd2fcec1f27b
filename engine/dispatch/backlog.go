package dispatch

import (
	"errors"
	"time"

	"github.com/informd/informd/engine/gather"
	"github.com/informd/informd/engine/queue"
)

// The time between two attempts at loading what was gathered doubles from firstLoadPause on.
const (
	firstLoadPause = 200 * time.Millisecond
	lastLoadPause  = 5 * time.Second
)

// backlog is what only the store has of a gathering. Until it is loaded, no event is made.
type backlog struct {
	recorded []Gathered
	restored time.Time     // when the backlog was restored
	pause    time.Duration // until the next attempt at loading; 0 before the first
	failed   func(error)   // reports that loading failed
}

func (b *backlog) isEmpty() bool { return len(b.recorded) == 0 }

// postpone makes the next attempt at loading come later than the last one.
func (b *backlog) postpone() { b.pause = min(max(firstLoadPause, 2*b.pause), lastLoadPause) }

// load reads everything from the store of a gathering with these options.
func (b *backlog) load(o *Gathering) (all []*gather.Change, err error) {
	for _, of := range b.recorded {
		found, err := b.loadOne(o, of)
		if err != nil {
			if !errors.Is(err, ErrNotYet) {
				b.failed(err)
			}
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// loadOne reads what was gathered of one object.
func (b *backlog) loadOne(o *Gathering, of Gathered) (all []*gather.Change, err error) {
	for after := of.First - 1; after < of.Last; {
		found, err := o.Store.Load(of.Key, after, gather.MaxItems, gather.MaxItemsBytes)
		if err != nil || len(found) == 0 {
			return all, err
		}
		for _, r := range found {
			if after = r.N; after > of.Last { // it came since
				break
			}
			c := &gather.Change{Value: r.Value, N: r.N, Since: r.Since, Sent: r.Sent}
			if c.Since.After(b.restored) {
				c.Since = b.restored // the clock was set meanwhile
			}
			if !o.Ends {
				c.Group = o.Of(c.Value.Delta)
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// alarm calls a function at the earliest of the times to which it was set.
type alarm struct {
	after func(time.Duration, func()) queue.Timer
	ring  func()
	timer queue.Timer
	isSet bool
	at    time.Time // valid if isSet
}

// set makes the alarm ring at a time, unless it rings earlier.
func (a *alarm) set(at, now time.Time) {
	if a.isSet && !at.Before(a.at) {
		return
	}
	a.at, a.isSet = at, true
	wait := max(0, at.Sub(now))
	if a.timer != nil {
		a.timer.Reset(wait)
		return
	}
	a.timer = a.after(wait, a.ring)
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
