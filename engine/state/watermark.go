package state

import (
	"math"
	"sync/atomic"
)

// inOrder is the first of the numbers that are given in the order in which deliveries come, as package queue has it. Those
// below are of dead letters that are delivered again, and ascend for themselves.
const inOrder = 1 << 62

// watermarks tell, for each of the two ranges of numbers, up to where deliveries may have been written.
type watermarks struct {
	highest [2]uint64        // that was put
	written [2]atomic.Uint64 // those with larger numbers were never swapped out, nor were on disk
}

func rangeOf(n uint64) int {
	if n < inOrder {
		return 0
	}
	return 1
}

func (w *watermarks) put(n uint64) { w.highest[rangeOf(n)] = max(w.highest[rangeOf(n)], n) }

// mayBeWritten tells whether a delivery of that number may be on disk, or on its way there.
func (w *watermarks) mayBeWritten(n uint64) bool { return n <= w.written[rangeOf(n)].Load() }

// swapped says that all that was put is on its way to the disk.
func (w *watermarks) swapped() {
	for r := range w.written {
		w.written[r].Store(max(w.written[r].Load(), w.highest[r]))
	}
}

// unknown says that anything may be on disk.
func (w *watermarks) unknown() {
	for r := range w.written {
		w.written[r].Store(math.MaxUint64)
	}
}

// found says what the highest numbers on disk are, if that was unknown.
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
