package state

import (
	"sync/atomic"
	"time"
)

const (
	// stretch is how long calm work goes on at a time.
	stretch = time.Millisecond
	// rest is how long it then stands back. So it takes a quarter of a processor at most.
	rest = 3 * time.Millisecond
)

// tempo says how fast full logs are moved. While it is calm, nobody waits for that: neither a reader
// nor the next log, which is not full.
type tempo struct{ isCalm, isEnding atomic.Bool }

// hurry ends the calm, until the next log is moved.
func (t *tempo) hurry() { t.isCalm.Store(false) }

// end ends the calm for good, because informd does.
func (t *tempo) end() { t.isEnding.Store(true) }

// breath makes long work stand back at short intervals while its tempo is calm. To move a log takes
// Pebble and us about half a second of processor time. At full speed, two processors would be busy
// with it that long. A change then waits for a processor where it goes from one goroutine to the
// next one, several milliseconds each time. The nil breath never stands back.
type breath struct {
	tempo *tempo
	since time.Time
}

// take is called before each piece of the work. It stands back if that is due.
func (b *breath) take() {
	if b == nil || !b.tempo.isCalm.Load() || b.tempo.isEnding.Load() {
		return
	}
	if time.Since(b.since) < stretch {
		return
	}
	if !b.since.IsZero() {
		time.Sleep(rest)
	}
	b.since = time.Now()
}
