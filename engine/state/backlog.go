// The counts of records that are not on disk yet.

package state

import "sync/atomic"

// tally counts records and, roughly, their bytes.
type tally struct{ records, bytes atomic.Int64 }

func (t *tally) add(records, bytes int64) {
	t.records.Add(records)
	t.bytes.Add(bytes)
}

func (t *tally) take() (records, bytes int64) { return t.records.Swap(0), t.bytes.Swap(0) }

// backlog counts what was recorded and is not on disk, by how far it has come. A record that moves
// on may be in no tally for a moment.
type backlog struct {
	unwritten tally // in memory only
	inFlight  tally // on its way to the log
	unsynced  tally // in the log, not yet on disk
	syncing   tally // on its way to the disk
}

// unwrittenRecords returns how many records are not on disk.
func (b *backlog) unwrittenRecords() (sum int64) {
	for _, t := range b.tallies() {
		sum += t.records.Load()
	}
	return max(0, sum)
}

// unwrittenBytes returns about how many bytes they have.
func (b *backlog) unwrittenBytes() (sum int64) {
	for _, t := range b.tallies() {
		sum += t.bytes.Load()
	}
	return max(0, sum)
}

// tallies returns all tallies, in the order in which records pass them.
func (b *backlog) tallies() []*tally {
	return []*tally{&b.unwritten, &b.inFlight, &b.unsynced, &b.syncing}
}
