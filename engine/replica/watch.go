// This file owns what a member does when its disk hangs or fails: it falls silent.

package replica

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// store is what raft keeps on disk: its log and its vote.
type store interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// watched is a store whose errors and delays make the member silent. After an error it does not
// return until it is released: raft panics when it cannot write its term or read an entry. From
// then on it does nothing, and says that it has: nothing reaches another member any more.
type watched struct {
	store
	log   *slog.Logger
	limit time.Duration
	hush  func()      // begins a silence
	speak func()      // ends it
	fail  func(error) // ends the member
	sizes *sizes

	closing chan struct{}
	close1  sync.Once

	mu    sync.Mutex // guards the fields below
	late  int        // how many calls take longer than limit
	doing string     // what the latest of them does
}

// trouble returns what hangs; "" if nothing does.
func (w *watched) trouble() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late == 0 {
		return ""
	}
	return "the disk hangs while it should " + w.doing
}

// do calls f, which is to do what with so many bytes. It returns false if f was not called or
// failed; the store has been released then.
func (w *watched) do(what string, bytes int, f func() error) bool {
	if w.isReleased() {
		return false
	}
	err := w.during(what, bytes, f)
	if err != nil {
		w.failed(what, err)
	}
	return err == nil
}

// slowDisk is how many bytes a disk that does not hang writes in the time of limit, at least.
const slowDisk = 4 << 20

// during calls f, and makes the member silent while it takes too long for so many bytes.
func (w *watched) during(what string, bytes int, f func() error) error {
	var mu sync.Mutex // guards the two
	var isLate, isDone bool
	allowed := w.limit + time.Duration(float64(w.limit)*float64(bytes)/slowDisk)
	timer := time.AfterFunc(allowed, func() {
		mu.Lock()
		defer mu.Unlock()
		if !isDone {
			isLate = true
			w.begin(what)
		}
	})
	err := f()
	timer.Stop()
	mu.Lock()
	isDone = true
	mu.Unlock()
	if isLate {
		w.end(what)
	}
	return err
}

// isReleased reports whether nothing is written any more.
func (w *watched) isReleased() bool {
	select {
	case <-w.closing:
		return true
	default:
		return false
	}
}

func (w *watched) begin(what string) {
	w.log.Error("the disk hangs: this replica is silent until it goes on", "doing", what)
	w.mu.Lock()
	w.late++
	w.doing = what
	w.mu.Unlock()
	w.hush()
}

func (w *watched) end(what string) {
	w.mu.Lock()
	w.late--
	w.mu.Unlock()
	w.speak()
	w.log.Info("the disk goes on: this replica speaks again", "did", what)
}

// failed ends the member with err and waits until the store is closed.
func (w *watched) failed(what string, err error) {
	w.fail(fmt.Errorf("the disk failed to %s: %w. If the directory is damaged, empty it, so that the "+
		"replica gets everything from the others", what, err))
	<-w.closing
}

// release makes calls that failed return, and others do nothing. The network has to be closed for
// good.
func (w *watched) release() { w.close1.Do(func() { close(w.closing) }) }

// StoreLog implements raft.LogStore.
func (w *watched) StoreLog(log *raft.Log) error { return w.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (w *watched) StoreLogs(logs []*raft.Log) error {
	bytes := 0
	for _, log := range logs {
		bytes += len(log.Data)
	}
	if !w.do("write entries", bytes, func() error { return w.store.StoreLogs(logs) }) {
		return errClosed
	}
	w.sizes.add(logs)
	return nil
}

// GetLog implements raft.LogStore. After release it returns an entry that means nothing.
func (w *watched) GetLog(index uint64, log *raft.Log) error {
	isMissing := false
	isRead := w.do("read an entry", 0, func() error {
		err := w.store.GetLog(index, log)
		if isMissing = errors.Is(err, raft.ErrLogNotFound); isMissing {
			return nil
		}
		return err
	})
	if isMissing {
		return raft.ErrLogNotFound // raft compares it
	}
	if !isRead {
		*log = raft.Log{Index: index, Type: raft.LogNoop}
	}
	return nil
}

// DeleteRange implements raft.LogStore.
func (w *watched) DeleteRange(from, to uint64) error {
	if !w.do("delete entries", 0, func() error { return w.store.DeleteRange(from, to) }) {
		return errClosed
	}
	return nil
}

// Set implements raft.StableStore.
func (w *watched) Set(key, value []byte) error {
	w.do("write its vote", 0, func() error { return w.store.Set(key, value) })
	return nil
}

// SetUint64 implements raft.StableStore.
func (w *watched) SetUint64(key []byte, value uint64) error {
	w.do("write its term", 0, func() error { return w.store.SetUint64(key, value) })
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore: the log has no gaps.
func (w *watched) IsMonotonic() bool { return true }
