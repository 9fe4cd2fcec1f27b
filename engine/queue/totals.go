package queue

// totals counts what a queue holds and what it has lost. Queue.mu guards it.
type totals struct {
	waiting   int   // values that wait in memory
	bytes     int64 // their size
	away      int   // values that only the store holds
	awayBytes int64 // their size
	inFlight  int
	shortened uint64 // values merged under Every
	dropped   uint64 // values lost
}

// add counts n values more that wait in memory, and their size. n and size may be negative.
func (t *totals) add(n int, size int64) {
	t.waiting += n
	t.bytes += size
}

// isFull reports whether memory has no room for another value of a size under Options.Every.
func (t *totals) isFull(maxItems int, maxBytes, size int64) bool {
	return t.waiting >= maxItems || t.bytes+size > maxBytes
}

// lost returns how many values were merged or dropped because of a bound.
func (t *totals) lost() uint64 { return t.shortened + t.dropped }

// forget forgets what the queue holds, but not what it has lost.
func (t *totals) forget() { *t = totals{shortened: t.shortened, dropped: t.dropped} }
