// The goroutines that append, sync and move, and their end.

package state

import (
	"context"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/state/disk"
)

// Run writes the recorded changes until ctx ends. Then it writes the rest and closes the store.
// Call it once, after everything was loaded. It returns nil. A failing disk, or a slow one, delays
// the return by at most about five seconds. Run then logs how much is not on disk, and leaves
// behind a goroutine and those of Pebble. When the disk recovers, they write and close after all,
// and only then release the directory.
func (s *Store) Run(ctx context.Context) error {
	defer s.end()
	s.running.Store(true)
	s.started.reach(1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.work(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.await(done)
	}
	return nil
}

// look examines the store at intervals until ctx ends.
func (s *Store) look(ctx context.Context) {
	every := time.NewTicker(min(s.opts.limits.patience/3, time.Second))
	defer every.Stop()
	for {
		select {
		case now := <-every.C:
			s.examine(now)
		case <-ctx.Done():
			return
		}
	}
}

func (s *Store) await(done <-chan struct{}) {
	grace := time.NewTimer(s.opts.limits.grace)
	defer grace.Stop()
	select {
	case <-done:
	case now := <-grace.C:
		status := s.Status()
		if d := s.db.Load(); d != nil { // nobody has looked since the end began
			if err := d.fail.reported(); err != nil {
				status.Trouble = err.Error()
			} else if status.Trouble == "" {
				status.Trouble = s.diskTrouble(d, now)
			}
		}
		switch {
		case s.broken.Load(): // its records are dropped, and breakDown has logged why
			return
		case status.Unwritten == 0:
			s.opts.Logger.Info("the end of the state's log could not be moved into its database in time: "+
				"the next start does that, and nothing is lost", "dir", s.dir, "reason", status.Trouble)
			return
		}
		s.opts.Logger.Error("the last records of the state could not be written: "+
			"the next start resumes from the last write", "dir", s.dir,
			"records", status.Unwritten, "bytes", status.UnwrittenBytes,
			"lastWrite", status.LastWrite, "reason", status.Trouble)
	}
}

// work waits for the disk, in four goroutines, until ctx ends. Then it writes the rest and closes
// the store.
func (s *Store) work(ctx context.Context) {
	context.AfterFunc(ctx, s.hasten)
	looks, stopLooking := context.WithCancel(ctx)
	var all, looking sync.WaitGroup
	all.Go(func() { s.appendAll(ctx) })
	all.Go(func() { s.syncAll(ctx) })
	all.Go(func() { s.moveAll(ctx) })
	looking.Go(func() { s.look(looks) })
	all.Wait()
	stopLooking()
	looking.Wait()
	s.finish()
	s.running.Store(false)
	s.close()
}

// hasten ends the rests of the work behind the log, because informd ends.
func (s *Store) hasten() {
	if d := s.db.Load(); d != nil {
		d.fs.Tempo.End()
	}
}

// finish writes the rest, and gives the store everything, so that the next start finds no log. It
// is called when nobody else appends, syncs or moves. It begins no log, and waits for a disk in
// trouble.
func (s *Store) finish() {
	d := s.db.Load()
	switch {
	case d == nil:
		return
	case s.broken.Load():
		s.discard()
		return
	case d.readOnly != nil:
		return
	}
	s.hasten()
	if !d.isShared {
		select {
		case full := <-d.full.next:
			s.move(d, full)
		default:
		}
	}
	if err := s.append(d); err != nil {
		s.stopWriting(err)
		return
	}
	s.trySync()
	if d.isShared {
		return // the log goes on without this store
	}
	s.move(d, &fullLog{number: d.log.End().File, upTo: s.logged.reached.Load(), atOnce: true})
}

// discard drops what was recorded before the store was found damaged.
func (s *Store) discard() {
	s.swap(0)
	for _, t := range s.tallies()[1:] {
		t.take()
	}
}

// appendAll writes what is recorded to the log: at once if an event waits for it, otherwise within
// gathering. With replicas both may take longer: see sharedGathering.
func (s *Store) appendAll(ctx context.Context) {
	last, isPausing := time.Time{}, false
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		wait := time.Duration(0)
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			switch {
			case isPausing:
				continue
			case hasReplicas(s.db.Load()) && time.Since(last) < sharedBusy:
				wait, isPausing = sharedPause, true
			}
		case <-s.stir:
			if isPausing {
				continue
			}
			every := gathering
			if hasReplicas(s.db.Load()) {
				every = sharedGathering
			}
			wait = every - time.Since(last)
		case <-next.C:
		}
		if wait > 0 {
			next.Reset(wait)
			continue
		}
		isPausing = false
		s.tryAppend()
		last = time.Now()
	}
}

// hasReplicas reports whether a log is that of several replicas.
func hasReplicas(d *database) bool { return d != nil && d.isShared }

// tryAppend appends what was recorded to the log, if it can.
func (s *Store) tryAppend() {
	s.stirred.Store(false) // whoever records from here on asks again
	d := s.db.Load()
	switch {
	case d == nil:
		return
	case s.broken.Load():
		s.discard()
		return
	case d.readOnly != nil, !d.isShared && d.fs.Trouble() != nil,
		s.unsynced.bytes.Load()+s.syncing.bytes.Load() > maxUnsynced:
		return // memory holds one record for each object and delivery; the log would hold them all
	}
	var err error
	if s.isLogBehind() {
		err = s.append(d)
	}
	isFull := d.log.End().Offset > s.opts.limits.log || s.wantsMoved.Load()
	switch {
	case err != nil || !isFull:
	case d.full.isMoving.Load():
		d.fs.Tempo.Hurry()
	default:
		err = s.rotate(d, s.wantsMoved.Swap(false))
	}
	if err != nil {
		s.stopWriting(err)
	}
}

// syncAll writes the logs to the disk every FlushEvery.
func (s *Store) syncAll(ctx context.Context) {
	flush := time.NewTicker(s.opts.FlushEvery)
	defer flush.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-flush.C:
		case <-s.wakeSync:
		}
		s.trySync()
		if s.isLogBehind() || s.wantsMoved.Load() {
			s.wake.send() // in case the log has been waiting for the disk
		}
	}
}

// trySync returns when everything is on disk that is in the log.
func (s *Store) trySync() {
	defer func() { s.examine(s.opts.Clock.Now()) }()
	d, cut := s.db.Load(), s.logged.reached.Load()
	if d == nil || d.readOnly != nil || s.broken.Load() || s.synced.has(cut) {
		return
	}
	asOf := s.health.sync(s.opts.Clock.Now())
	s.syncing.add(s.unsynced.take())
	if !d.isShared { // otherwise more than half of the processes have synced it already
		if _, err := d.log.Sync(); err != nil {
			d.fail.report(damage(err))
			s.breakDown(d, err)
			return
		}
	}
	s.syncing.take()
	s.health.wrote(asOf)
	s.synced.reach(cut)
}

// moveAll gives the store the logs that are full, and opens it if that did not succeed at first.
func (s *Store) moveAll(ctx context.Context) {
	retry := time.NewTicker(s.opts.limits.retry)
	defer retry.Stop()
	size := time.NewTicker(s.opts.limits.size)
	defer size.Stop()
	s.measure()
	for {
		var full chan *fullLog
		d := s.db.Load()
		if d != nil {
			full = d.full.next
		}
		select {
		case <-ctx.Done():
			return
		case next := <-full:
			if ctx.Err() != nil {
				d.fs.Tempo.End()
			}
			s.move(d, next)
		case <-size.C:
			s.measure()
		case <-retry.C:
			s.tryAgain()
		}
	}
}

// move gives the store a log. It repeats that while the log cannot be read for a reason that may
// pass.
func (s *Store) move(d *database, full *fullLog) {
	if s.broken.Load() {
		return
	}
	var err error
	_ = d.fs.Insist("read "+d.log.Path(full.number), func() error {
		if err = d.checkpoint(full, s.got); disk.IsAtFault(err) {
			return err
		}
		return nil
	})
	if err != nil {
		d.fail.report(damage(err))
		s.breakDown(d, err)
	}
	s.wake.send() // the next log may be full, or wanted
}

// tryAgain opens the store for writing if that has not succeeded yet.
func (s *Store) tryAgain() {
	switch d := s.db.Load(); {
	case d == nil:
		s.openAfresh()
	case d.readOnly != nil && !s.broken.Load():
		s.goOn(d)
	}
	if s.isLogBehind() {
		s.wake.send()
	}
}

// isLogBehind reports whether the log does not have everything that was recorded. Records that
// cancel each other leave a cut without any, which goroutines may wait for.
func (s *Store) isLogBehind() bool {
	return s.unwritten.records.Load() != 0 || !s.logged.has(s.last.Load())
}

func (s *Store) measure() {
	if d := s.db.Load(); d != nil && !s.broken.Load() {
		_ = d.locked(func(pebble.Reader) error { // on an error the size stays as it was
			size := int64(d.pebble.Metrics().DiskSpaceUsage())
			if d.log != nil {
				size += d.log.Size()
			}
			s.health.measured(size)
			return nil
		})
	}
}

// close closes the store and releases the directory.
func (s *Store) close() {
	defer s.opener.unlock()
	s.opener.mu.Lock()
	defer s.opener.mu.Unlock()
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
		if d.isShared { // the Replica opens it again, so nothing of it may go on
			_ = d.close() // it waits for the close that abandon has begun
		}
	default:
		if err := d.close(); err != nil {
			s.opts.Logger.Error("the state could not be closed cleanly",
				"dir", s.dir, "error", err.Error())
		}
	}
}
