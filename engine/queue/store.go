package queue

import "time"

// Store keeps a record of each value that a queue holds, under the value's number, from when it is added until it has
// been dealt with. The queue calls it while it is locked, except for Load: the others must be quick, and nothing may call
// the queue.
type Store[K comparable, V any] interface {
	// Put records a value, in the place of what was recorded under that number and key before.
	Put(n uint64, key K, r Record[V])
	// Delete drops the record of a value that is no more.
	Delete(n uint64, key K)
	// Room tells whether values of that size in all may be left to the store alone.
	Room(size int64) bool
	// Load reads values of key with numbers above after, in ascending order: at most maxItems of them, and no more than
	// about maxBytes, but one at least if there is one. What was put and cannot be read yet is left out, and everything
	// above it too. It is called from one goroutine at a time, with the queue unlocked.
	Load(key K, after uint64, maxItems int, maxBytes int64) ([]Numbered[V], error)
}

// Record is a value with what the queue knows of it.
type Record[V any] struct {
	Value    V
	Since    time.Time // when it was added; of a merged one, when the first was
	Due      time.Time // not to be handed out before; zero if there is no such time
	Sent     bool      // it was handed out before
	Redriven bool      // it goes as it is, and first: see Queue.Redrive
}

// Numbered is a Record under its number. Numbers are unique in a queue, and ascend per key in the order in which the
// values are handed out.
type Numbered[V any] struct {
	N uint64
	Record[V]
}
