package queue

import (
	"time"
)

const (
	// DefaultMaxItems and DefaultMaxBytes are what Options.Every is bounded by if Options does not say.
	DefaultMaxItems = 100_000
	DefaultMaxBytes = 256 << 20
	// DefaultMaxPerKey is Options.MaxPerKey if that does not say.
	DefaultMaxPerKey = 1000
)

// Options are what a Queue is made with. The functions are called while the queue is locked, except for Ready, Hungry and Crowded: they must
// be quick and must not call the queue.
type Options[K comparable, V any] struct {
	// Merge says what becomes of a newer value behind a waiting one of the same key. sent tells that the waiting one has
	// been handed out before, and is due for a retry. If ok is false the two cannot be merged and both wait, in order. If
	// keep is false they cancel each other out. Otherwise merged stands for both, in the place of the waiting one. nil
	// merges nothing.
	Merge func(waiting, newer V, sent bool) (merged V, keep, ok bool)

	// Every keeps each value as long as what waits in the whole queue stays within MaxItems (DefaultMaxItems if 0) and
	// MaxBytes (DefaultMaxBytes if 0), by Size. A value that cannot be merged is kept past them too. Without Every they
	// mean nothing.
	Every    bool
	MaxItems int
	MaxBytes int64

	// MaxPerKey (DefaultMaxPerKey if 0) is how many values that cannot be merged with each other may wait for one key
	// (under Every, of what comes past its bounds). Past it each one drops the key's oldest, which is counted.
	MaxPerKey int

	// MaxDelay bounds how long a value that was loaded waits until it is due, as a clock may have been wrong when the value
	// was recorded. 0 means no bound.
	MaxDelay time.Duration

	// Now returns the time. nil means time.Now. Delays are waited for in real time.
	Now func() time.Time

	// Size is how many bytes a value takes. nil means none.
	Size func(V) int64

	// Store keeps a record of each value, and what there is no memory for: see Store. nil means that there is none.
	Store Store[K, V]

	// Ready is called when a key became ready to be taken, on the goroutine that made it so, with the queue unlocked.
	// It must not block. nil is allowed.
	Ready func()

	// Hungry is called when there is something for Refill to do, as Ready is. nil is allowed.
	Hungry func()

	// Crowded is called when Add merged or dropped a value because of a bound, as Ready is. nil is allowed.
	Crowded func()
}
