package queue

import "time"

// firstNumber is the lowest number of a value that is not redriven.
const firstNumber = 1 << 62

// numbers hands out the numbers of a queue's values. Queue.mu guards it.
type numbers struct {
	last     uint64 // of the values that are not redriven
	redriven uint64 // the last one of a redriven value
}

// next returns a number for a value that goes behind all others of its key.
func (n *numbers) next() uint64 {
	n.last++
	return n.last
}

// reserve makes next return numbers above last.
func (n *numbers) reserve(last uint64) { n.last = max(n.last, last) }

// nextRedriven returns a number for a value that goes ahead of all that are not redriven, also
// after a restart. The number derives from the time. Restore does not tell the queue about redriven
// values that are left, so new numbers must exceed theirs.
func (n *numbers) nextRedriven(now time.Time) uint64 {
	at := min(max(now.UnixNano(), 0), firstNumber-1) // reached in 2116
	n.redriven = max(n.redriven+1, uint64(at))
	return n.redriven
}
