package timing

import "time"

const (
	// Turn is how long work in turns keeps changes of its informer waiting.
	Turn = 250 * time.Microsecond
	// Lull is how long such work rests after a turn, as a multiple of the time that it took. So it
	// takes at most a quarter of a processor.
	Lull = 3
	// Stale is how long such work waits while its informer may have missed changes.
	Stale = 200 * time.Millisecond
)
