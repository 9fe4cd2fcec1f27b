// Work that rests.

package disk

import (
	"sync/atomic"
	"time"
)

const (
	// stretch is how long calm work goes on at a time.
	stretch = time.Millisecond
	// rest is how long it then rests. So it takes about a quarter of a processor.
	rest = 3 * time.Millisecond
	// longRest is the rest of work that may take its time. So it takes about a fifteenth.
	longRest = 14 * time.Millisecond
)

// Tempo says whether the work behind the log rests between stretches. It is calm while nobody waits
// for that work: neither a reader, nor a log that is full, nor the end of informd.
type Tempo struct {
	rest   atomic.Int64 // nanoseconds; 0 while somebody waits
	ending atomic.Bool
}

// SetCalm begins the calm, or ends it.
func (t *Tempo) SetCalm(calm bool) {
	if calm {
		t.rest.Store(int64(rest))
	} else {
		t.rest.Store(0)
	}
}

// SetSlow begins a calm with longer rests.
func (t *Tempo) SetSlow() { t.rest.Store(int64(longRest)) }

// IsCalm reports whether the work rests, unless informd ends.
func (t *Tempo) IsCalm() bool { return t.rest.Load() > 0 }

// IsEnding reports whether the calm has ended for good.
func (t *Tempo) IsEnding() bool { return t.ending.Load() }

// Hurry ends the calm, until the next log is full.
func (t *Tempo) Hurry() { t.SetCalm(false) }

// End ends the calm for good.
func (t *Tempo) End() { t.ending.Store(true) }

// Breath makes a goroutine rest at short intervals while its tempo is calm. The goroutines that
// read a full log and move it into Pebble do so, and those that write Pebble's tables. For each
// log, they need about half a second of processor time. Without rests, two processors would be busy
// with that. Meanwhile a change would wait for a processor where it goes from one goroutine to the
// next one, several milliseconds each time. The nil breath never rests.
type Breath struct {
	tempo *Tempo
	since time.Time
}

// NewBreath returns the breath of one goroutine.
func NewBreath(t *Tempo) *Breath { return &Breath{tempo: t} }

// Take is called before each piece of the work. It rests if that is due.
func (b *Breath) Take() {
	if b == nil || !b.tempo.IsCalm() || b.tempo.IsEnding() {
		return
	}
	if time.Since(b.since) < stretch {
		return
	}
	if !b.since.IsZero() {
		time.Sleep(time.Duration(b.tempo.rest.Load()))
	}
	b.since = time.Now()
}
