package queue

import (
	"time"
)

const (
	// DefaultMaxItems and DefaultMaxBytes are the bounds under Options.Every if Options sets none.
	DefaultMaxItems = 100_000
	DefaultMaxBytes = 256 << 20
	// DefaultMaxPerKey is the bound if Options.MaxPerKey is 0.
	DefaultMaxPerKey = 1000
)

// Timer is what AfterFunc returns. A *time.Timer is one.
type Timer interface {
	Stop() bool
	Reset(time.Duration) bool
}

// Options configure a Queue. The queue calls the functions while it is locked, except Ready, Hungry
// and Crowded. So they must be quick and must not call the queue. It has many fields because bounds,
// time, store and what the queue reports are all its user's.
type Options[K comparable, V any] struct {
	// Merge decides what becomes of a newer value behind a waiting one of the same key. sent
	// reports that the waiting value was handed out before and is due for a retry. If ok is false,
	// the two cannot be merged, and both wait in order. If keep is false, they cancel each other
	// out. Otherwise merged replaces both, in the place of the waiting one. nil merges nothing.
	Merge func(waiting, newer V, sent bool) (merged V, keep, ok bool)

	// Renews reports whether a merge made another value of waiting, so that the delay of a value that
	// yields ends early: see Queue.Yield. nil means that every merge does.
	Renews func(waiting, merged V) bool

	// Every keeps each value while all that wait stay within MaxItems (0: DefaultMaxItems) and
	// MaxBytes (0: DefaultMaxBytes), measured by Size. Beyond these bounds the queue merges, but
	// still keeps a value that cannot be merged. Without Every the two bounds have no effect.
	Every    bool
	MaxItems int
	MaxBytes int64

	// MaxPerKey (0: DefaultMaxPerKey) bounds the waiting values of one key that cannot be merged.
	// Under Every it applies to values beyond the bounds of Every. Each further value makes the
	// queue drop the key's oldest, and count it.
	MaxPerKey int

	// MaxDelay bounds the time until a loaded value is due, because the clock may have been wrong
	// when the value was recorded. 0 means no bound.
	MaxDelay time.Duration

	// Now returns the time. nil means time.Now.
	Now func() time.Time

	// AfterFunc calls a function after a delay, as time.AfterFunc does, which nil means. The queue
	// waits for delays with it.
	AfterFunc func(time.Duration, func()) Timer

	// Size returns the bytes that a value takes. nil means that values take none.
	Size func(V) int64

	// Store records each value, and holds the values that do not fit into memory. nil means that
	// nothing is recorded.
	Store Store[K, V]

	// Ready is called when a key becomes ready to be taken. The goroutine that made it ready makes
	// the call, with the queue unlocked. Ready must not block. It may be nil.
	Ready func()

	// Hungry is called in the same way when Refill has something to do. It may be nil.
	Hungry func()

	// Crowded is called in the same way when Add merged or dropped a value because of a bound. It
	// may be nil.
	Crowded func()
}
