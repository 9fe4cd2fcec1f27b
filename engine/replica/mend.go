// This file owns the repair of one state in which raft-wal cannot go on: it was ended after it had
// sealed a file of the log, or while it did, and before it noted the next file. It would refuse
// every further entry.

package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
)

// mend copies the last file of the log in dir to a new one if it cannot be appended to, and makes
// that the last one. At every moment the files that are noted hold all entries.
func mend(dir string, files types.SegmentFiler) (err error) {
	var notes metadb.BoltMetaDB
	state, err := notes.Load(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, notes.Close()) }()
	last := len(state.Segments) - 1
	if last < 0 || !state.Segments[last].SealTime.IsZero() {
		return nil
	}
	old := state.Segments[last]
	tail, err := files.RecoverTail(old)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tail.Close()) }()
	if isSealed, _, err := tail.Sealed(); err != nil || !isSealed {
		return err
	}
	entries, size, err := entriesOf(tail, old.MinIndex)
	if err != nil {
		return err
	}
	next := old
	next.ID, next.BaseIndex, next.CreateTime = state.NextSegmentID, old.MinIndex, time.Now()
	next.SizeLimit += uint32(size + 64*len(entries)) // so that it is not full at once
	if err := files.Delete(next.BaseIndex, next.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // of an attempt that was cut short
	}
	made, err := files.Create(next)
	if err != nil {
		return err
	}
	if err := errors.Join(made.Append(entries), made.Close()); err != nil {
		return fmt.Errorf("cannot copy the end of the log: %w", err)
	}
	state.NextSegmentID++
	state.Segments[last] = next
	return notes.CommitState(state)
}

// entriesOf returns the entries of a file from first on, and how many bytes they have.
func entriesOf(
	file types.SegmentWriter, first uint64,
) (entries []types.LogEntry, size int, err error) {
	for index := first; index <= file.LastIndex(); index++ {
		entry, err := file.GetLog(index)
		if err != nil {
			return nil, 0, err
		}
		entries = append(entries, types.LogEntry{Index: index, Data: bytes.Clone(entry.Bs)})
		size += len(entry.Bs)
		if err := entry.Close(); err != nil {
			return nil, 0, err
		}
	}
	return entries, size, nil
}
