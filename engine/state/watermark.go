// Which numbers of deliveries the disk may have.

package state

import (
	"math"
	"sync/atomic"
)

// inOrder is the first number that package queue gives to deliveries in the order in which they
// come. Lower numbers belong to dead letters that are retried, and ascend on their own.
const inOrder = 1 << 62

// watermarks hold, for each of the two ranges of numbers, the highest number that deliveries on
// disk may have.
type watermarks struct {
	// highest is the highest number that was put. Store.cut and the lane's single caller guard it.
	highest [2]uint64
	written [2]atomic.Uint64 // higher numbers were never taken for writing, nor found on disk
}

func rangeOf(n uint64) int {
	if n < inOrder {
		return 0
	}
	return 1
}

func (w *watermarks) put(n uint64) { w.highest[rangeOf(n)] = max(w.highest[rangeOf(n)], n) }

// mayBeWritten reports whether the delivery with that number may be on disk, or on its way there.
func (w *watermarks) mayBeWritten(n uint64) bool { return n <= w.written[rangeOf(n)].Load() }

// taken returns the highest numbers that may be on disk, or on their way there.
func (w *watermarks) taken() [2]uint64 {
	return [2]uint64{w.written[0].Load(), w.written[1].Load()}
}

// swapped notes that everything that was put is on its way to the disk.
func (w *watermarks) swapped() {
	for r := range w.written {
		w.written[r].Store(max(w.written[r].Load(), w.highest[r]))
	}
}

// unknown notes that anything may be on disk.
func (w *watermarks) unknown() {
	for r := range w.written {
		w.written[r].Store(math.MaxUint64)
	}
}

// found notes the highest numbers on disk, and reports whether they were unknown.
func (w *watermarks) found(last [2]uint64) (was bool) {
	for r := range w.written {
		was = w.written[r].CompareAndSwap(math.MaxUint64, last[r]) || was
	}
	return was
}

func (w *watermarks) reset() {
	w.highest = [2]uint64{}
	for r := range w.written {
		w.written[r].Store(0)
	}
}
