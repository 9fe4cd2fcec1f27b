package state

import "time"

const (
	// stretch is how long a breath's work goes on at a time.
	stretch = time.Millisecond
	// breather is how long it then stands back at least.
	breather = 20 * time.Microsecond
)

// breath makes long work stand back at short intervals, because nobody waits for it. Otherwise it
// keeps a processor until the kernel, or Go's runtime after 10 ms, gives that to somebody else. And
// while all processors have work, the runtime looks only every 10 ms whether something has come
// over the network. The nil breath, of work that somebody waits for, never stands back.
type breath struct{ since time.Time }

// take is called before each piece of the work. It stands back if that is due.
func (b *breath) take() {
	if b == nil || time.Since(b.since) < stretch {
		return
	}
	if !b.since.IsZero() {
		time.Sleep(breather)
	}
	b.since = time.Now()
}
