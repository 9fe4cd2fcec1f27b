// This file owns raft's log on disk: how it is opened, and that it fits the latest snapshot.

package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// openDir makes dir and the folder of the log in it, and returns a file that keeps other processes
// out until it is closed.
func openDir(dir string) (*os.File, error) {
	_, err := os.Stat(dir)
	isNew := errors.Is(err, os.ErrNotExist)
	inner := filepath.Join(dir, "raft")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		return nil, err
	}
	_ = os.Chmod(dir, 0o700) // a volume may belong to somebody else; what is in it does not
	if err := os.Chmod(inner, 0o700); err != nil {
		return nil, err
	}
	if isNew {
		if err := syncDir(filepath.Dir(dir)); err != nil {
			return nil, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("another process uses %s: stop it, or give this one its own: %w", dir,
			err)
	}
	return lock, nil
}

// openStore opens raft's log and vote in dir.
func openStore(dir string, segmentSize int, log *slog.Logger) (store, error) {
	dir = filepath.Join(dir, "raft")
	files := segment.NewFiler(dir, ownFiles{fs.New()})
	err := mend(dir, files)
	var opened *wal.WAL
	if err == nil {
		opened, err = wal.Open(dir, wal.WithLogger(hcLogger(log, "raft-wal")),
			wal.WithSegmentSize(segmentSize), wal.WithSegmentFiler(files))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open raft's log in %s: %w. If it is damaged, empty the replica's "+
			"directory, so that it gets everything from the others", dir, err)
	}
	if err := os.Chmod(filepath.Join(dir, metadb.FileName), 0o600); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// ownFiles makes files that nobody else can read.
type ownFiles struct{ *fs.FS }

// Create implements types.VFS.
func (f ownFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	file, err := f.FS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// fit removes from log what a crash has left there that contradicts the latest snapshot. meta is
// nil if there is none.
//
// A snapshot of another member replaces the whole log, after its meta was written. If the process
// ended in between, the log may end before the snapshot, and raft could not append to it. Or it may
// hold an entry of another term where the snapshot ends: it was never committed, nor was one after
// it.
func fit(log raft.LogStore, meta *raft.SnapshotMeta) error {
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	if meta == nil {
		meta = &raft.SnapshotMeta{}
	}
	if first > meta.Index+1 {
		return fmt.Errorf("raft's log begins with entry %d, but the latest snapshot ends with %d: "+
			"empty the replica's directory, so that it gets everything from the others", first, meta.Index)
	}
	isOld := last < meta.Index
	if !isOld && first <= meta.Index {
		var entry raft.Log
		if err := log.GetLog(meta.Index, &entry); err != nil {
			return err
		}
		isOld = entry.Term != meta.Term
	}
	if isOld {
		return log.DeleteRange(first, last)
	}
	return nil
}
