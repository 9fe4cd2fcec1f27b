// This file owns how long raft's log may become: when a member takes a snapshot, and how many
// entries it keeps then.

package replica

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// sizes counts the entries since the latest snapshot. Any goroutine may use it.
type sizes struct {
	bytes   int64  // a snapshot is due when there are so many,
	entries uint64 // and so many entries
	due     chan struct{}

	mu   sync.Mutex // guards the fields below
	has  int64
	from uint64 // the first entry that counts
	to   uint64 // the last one
}

func newSizes(t timing) *sizes {
	return &sizes{bytes: t.logBytes, entries: t.logEntries, due: make(chan struct{}, 1)}
}

// add counts entries that were written.
func (s *sizes) add(entries []*raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if s.from == 0 {
			s.from = e.Index
		}
		s.has += int64(len(e.Data))
		s.to = max(s.to, e.Index)
	}
	if s.has >= s.bytes && s.to-s.from+1 >= s.entries {
		select {
		case s.due <- struct{}{}:
		default:
		}
	}
}

// keep returns how many entries make up the bytes that the log keeps, of the size that they have on
// average.
func (s *sizes) keep() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := s.to - s.from + 1
	if s.has == 0 || count == 0 {
		return s.entries
	}
	return max(s.entries, uint64(float64(count)*float64(s.bytes)/float64(s.has)))
}

// reset begins to count from zero.
func (s *sizes) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has, s.from, s.to = 0, 0, 0
	select {
	case <-s.due: // the latest snapshot has what it was due for
	default:
	}
}

// count counts the entries of log after the latest snapshot, at a start.
func (s *sizes) count(log raft.LogStore, snapshot uint64) error {
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	first, err := log.FirstIndex()
	if err != nil || last == 0 {
		return err
	}
	for index := max(first, snapshot+1); index <= last; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			return err
		}
		s.add([]*raft.Log{&entry})
	}
	return nil
}

// bound takes a snapshot whenever one is due, until ctx ends.
func (s *sizes) bound(ctx context.Context, r *raft.Raft, retry time.Duration, log *slog.Logger) {
	for {
		select {
		case <-s.due:
		case <-ctx.Done():
			return
		}
		config := r.ReloadableConfig()
		config.TrailingLogs = s.keep()
		err := r.ReloadConfig(config)
		if err == nil {
			err = r.Snapshot().Error()
		}
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return
		case errors.Is(err, raft.ErrNothingNewToSnapshot):
		default:
			log.Debug("cannot shorten raft's log now", "error", err)
		}
		select {
		case <-time.After(retry):
			s.add(nil) // it is still due
		case <-ctx.Done():
			return
		}
	}
}
