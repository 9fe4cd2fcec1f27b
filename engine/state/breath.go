package state

import (
	"sync/atomic"
	"time"
)

const (
	// stretch is how long calm work goes on at a time.
	stretch = time.Millisecond
	// rest is how long it then rests. So it takes about a quarter of a processor.
	rest = 3 * time.Millisecond
)

// tempo says whether the work behind the log rests between stretches. It is calm while nobody waits
// for that work: neither a reader, nor a log that is full, nor the end of informd.
type tempo struct{ isCalm, isEnding atomic.Bool }

// hurry ends the calm, until the next log is full.
func (t *tempo) hurry() { t.isCalm.Store(false) }

// end ends the calm for good.
func (t *tempo) end() { t.isEnding.Store(true) }

// breath makes a goroutine rest at short intervals while its tempo is calm. The goroutines that read
// a full log and move it into Pebble do so, and those that write Pebble's tables. For each log, they
// need about half a second of processor time. Without rests, two processors would be busy with that.
// Meanwhile a change would wait for a processor where it goes from one goroutine to the next one,
// several milliseconds each time. The nil breath never rests.
type breath struct {
	tempo *tempo
	since time.Time
}

// take is called before each piece of the work. It rests if that is due.
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
