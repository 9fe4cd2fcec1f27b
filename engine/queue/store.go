package queue

import "time"

// Store keeps a record of each value that a queue holds, under the value's number, from Add until
// the value has been dealt with. The queue calls it while it is locked, except for Load. So the
// other methods must be quick, and none may call the queue.
type Store[K comparable, V any] interface {
	// Put records a value. It replaces what that number and key had before. It returns the number
	// of the cut that holds the record: see Item.Cut.
	Put(n uint64, key K, r Record[V]) (cut uint64)
	// Delete drops the record of a value that has been dealt with.
	Delete(n uint64, key K)
	// Room reports whether the store alone may hold further values of that size in all.
	Room(size int64) bool
	// Load returns values of key with numbers above after, in ascending order. It returns at most
	// maxItems values and about maxBytes, but at least one if there is one. If a value that was put
	// cannot be read yet, Load leaves it out, and everything above it. The queue calls Load from
	// one goroutine at a time, and is unlocked meanwhile.
	Load(key K, after uint64, maxItems int, maxBytes int64) ([]Numbered[V], error)
}

// Record is a value with what the queue knows about it.
type Record[V any] struct {
	Value    V
	Since    time.Time // when it was added; for a merged value, when the first of them was
	Due      time.Time // it must not be handed out earlier; zero if it is due at once
	Yields   bool      // but it may once a newer value is merged into it: see Queue.Yield
	Sent     bool      // it was handed out before
	Redriven bool      // it comes first and is never merged: see Queue.Redrive
}

// Numbered is a Record with its number. Numbers are unique in a queue. Within a key they ascend in
// the order in which the queue hands the values out.
type Numbered[V any] struct {
	N uint64
	Record[V]
}
