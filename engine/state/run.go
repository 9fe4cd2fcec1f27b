package state

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Run writes the recorded changes every FlushEvery, until ctx ends. Then it writes the rest and
// closes the store. Call it once, after everything was loaded. It returns nil.
// A failing disk delays the return by at most about five seconds. Run then logs how much is not on
// disk, and leaves behind a goroutine and those of Pebble. When the disk recovers, they write and
// close after all, and only then release the directory.
func (s *Store) Run(ctx context.Context) error {
	s.running.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.work(ctx)
	}()
	every := time.NewTicker(min(s.opts.limits.patience/3, time.Second))
	defer every.Stop()
	for {
		select {
		case <-done:
			return nil
		case now := <-every.C:
			s.examine(now)
		case <-ctx.Done():
			s.await(done)
			return nil
		}
	}
}

func (s *Store) await(done <-chan struct{}) {
	grace := time.NewTimer(s.opts.limits.grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		status := s.Status()
		s.opts.Logger.Error("the last records of the state could not be written: "+
			"the next start resumes from the last write", "dir", s.dir,
			"records", status.Unwritten, "bytes", status.UnwrittenBytes,
			"lastWrite", status.LastWrite, "reason", status.Trouble)
	}
}

// work is the goroutine that waits for the disk.
func (s *Store) work(ctx context.Context) {
	flush := time.NewTicker(s.opts.FlushEvery)
	defer flush.Stop()
	retry := time.NewTicker(s.opts.limits.retry)
	defer retry.Stop()
	size := time.NewTicker(s.opts.limits.size)
	defer size.Stop()
	s.measure()
	for {
		select {
		case <-ctx.Done():
			s.write()
			s.close()
			return
		case <-flush.C:
			s.write()
		case <-s.wake:
			s.write()
		case <-size.C:
			s.measure()
		case <-retry.C:
			s.tryAgain()
		}
	}
}

// tryAgain opens the store for writing if that has not succeeded yet.
func (s *Store) tryAgain() {
	switch d := s.db.Load(); {
	case d == nil:
		s.openAfresh()
	case d.readOnly != nil && !s.broken.Load():
		s.goOn(d)
	}
}

// write writes the recorded changes, if it can.
func (s *Store) write() {
	waiting := s.rounds.begin()
	err := s.tryWrite()
	if err == nil && waiting != nil {
		err = s.isWriting()
	}
	waiting.end(err)
}

func (s *Store) tryWrite() (err error) {
	d := s.db.Load()
	switch {
	case d == nil:
		return nil
	case s.broken.Load():
		s.swap() // drops what was recorded before the damage was found
		s.inFlight.take()
	case d.readOnly != nil:
		return nil
	case s.unwritten.records.Load() != 0:
		if err = s.flush(d); err != nil {
			s.breakDown(d, err)
		}
	}
	s.examine(s.opts.Clock.Now())
	return err
}

func (s *Store) measure() {
	if d := s.db.Load(); d != nil && !s.broken.Load() {
		_ = d.locked(func(db *pebble.DB) error { // on an error the size stays as it was
			metrics := db.Metrics()
			s.health.measured(int64(metrics.DiskSpaceUsage()))
			return nil
		})
	}
}

// close closes the store and releases the directory.
func (s *Store) close() {
	s.opening.Lock()
	defer s.opening.Unlock()
	d := s.db.Load()
	records, bytes := s.unwritten.records.Load(), s.unwritten.bytes.Load()
	if records > 0 && (d == nil || d.readOnly != nil) {
		s.opts.Logger.Error("nothing that was recorded since the start could be written: "+
			"the disk never became writable",
			"dir", s.dir, "records", records, "bytes", bytes)
	}
	switch {
	case d == nil:
	case s.broken.Load():
		d.abandon()
	default:
		if err := d.close(); err != nil {
			s.opts.Logger.Error("the state could not be closed cleanly",
				"dir", s.dir, "error", err.Error())
		}
	}
	if s.lock != nil {
		_ = s.lock.Close() // the lock ends with the process at the latest
		s.lock = nil
	}
}
