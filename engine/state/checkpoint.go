// Moving full logs into Pebble, while the daemon runs and at the start.

package state

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
)

// maxBatch is the size in Pebble's memory, in bytes, at which a batch ends and another one begins.
// If a batch needs half of maxMemory, Pebble flushes it at once, with what it has in memory
// already. That makes more and smaller tables.
const maxBatch = 3 << 20

// perEntry is about how many bytes of Pebble's memory a key takes besides itself and its value.
const perEntry = 200

// maxMemory is the size in bytes at which Pebble writes its memory to a table. A write waits for
// tables while Pebble holds three times as much.
const maxMemory = 8 << 20

// fullLog is a file of the log that is no longer written, and has all cuts up to one.
type fullLog struct {
	number  uint64
	upTo    uint64
	atOnce  bool // the store is to have it now, not when the next file is full
	content *log.Contents
}

// fullLogs are the full logs on their way from the goroutine that appends to the one that makes
// checkpoints, which moves them into the store.
type fullLogs struct {
	next     chan *fullLog // capacity 1
	isMoving atomic.Bool   // one was handed over, and the other goroutine has not dealt with it
	kept     *fullLog      // the one that is not in the store yet; only checkpoints use it
}

// hand hands over a log. isMoving must be false.
func (f *fullLogs) hand(full *fullLog) {
	f.isMoving.Store(true)
	f.next <- full
}

// rotate begins another log, and hands the one before it to the goroutine that makes checkpoints.
// Only the goroutine that appends calls rotate, and not before that goroutine has dealt with the
// last log that it was handed.
func (s *Store) rotate(d *database, atOnce bool) error {
	old, err := d.log.Roll()
	if err != nil {
		return err
	}
	// A log grows far beyond its limit if the one before it is not moved in time. Pebble is then
	// behind with its tables.
	isBehind := old.Offset > s.opts.limits.log+s.opts.limits.log/2
	d.fs.Tempo.SetCalm(!atOnce && !isBehind)
	d.full.hand(&fullLog{number: old.File, upTo: s.logged.reached.Load(), atOnce: atOnce})
	return nil
}

// checkpoint reads a log that is full. It moves the log before it into the store, without what the
// full one changes again, and keeps the full one until its turn comes. Most deliveries and states
// of busy objects thus never reach the store. If the store is to have the full one at once, it
// moves that, too. It takes as long as the disk takes. After an error it may be called again.
//
// moved is called with each log that the store has got.
func (d *database) checkpoint(full *fullLog, moved func(*fullLog)) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = damage(what)
		}
	}()
	if full.content == nil {
		content, err := d.log.ReadBack(full.number, disk.NewBreath(&d.fs.Tempo).Take)
		if err != nil {
			return logError(err)
		}
		full.content = content
	}
	if kept := d.full.kept; kept != nil && kept != full {
		if err := d.moveLog(kept, full.content, moved); err != nil {
			return err
		}
	}
	d.full.kept = full
	if full.atOnce {
		if err := d.moveLog(full, nil, moved); err != nil {
			return err
		}
	}
	d.full.isMoving.Store(false)
	return nil
}

// moveLog moves a log into the store and removes it. later is what the next log holds: the store
// then depends on it. It is nil if the next log does not count.
func (d *database) moveLog(full *fullLog, later *log.Contents, moved func(*fullLog)) error {
	done := records.Progress{Next: full.number + 1}
	if later != nil {
		done.Begun = later.Length()
	}
	begun := records.Progress{Next: full.number, Begun: full.content.Length()}
	if err := d.move(full.content, later, begun, done); err != nil {
		return err
	}
	d.full.kept = nil
	_ = full.content.Close() // it was only read
	if err := d.log.Remove(full.number); err != nil {
		return err
	}
	moved(full)
	return nil
}

// got notes that the store has got a log.
func (s *Store) got(full *fullLog) {
	s.mu.Lock()
	s.dropping = slices.DeleteFunc(s.dropping, func(o dropping) bool {
		return o.log <= full.number
	})
	s.mu.Unlock()
	s.stored.reach(full.upTo)
}

// move writes the contents of a log to the store, without the keys that later changes. begun is the
// progress before everything is there, done the progress after that.
func (d *database) move(c, later *log.Contents, begun, done records.Progress) error {
	m := mover{db: d, batch: d.pebble.NewBatch(pebble.WithMaxRetainedSizeBytes(4 << 20))}
	m.set(records.ProgressKey, records.AppendProgress(nil, begun))
	m.apply(c, later)
	m.set(records.ProgressKey, records.AppendProgress(nil, done))
	if m.err == nil {
		m.err = m.batch.Commit(pebble.NoSync)
	}
	if closing := m.batch.Close(); m.err == nil {
		m.err = closing
	}
	if m.err == nil {
		m.err = d.pebble.Flush()
	}
	return m.err
}

// mover writes the contents of logs in batches, in the order of the keys. So a reader meanwhile
// finds the deliveries of an object up to some number.
type mover struct {
	db    *database
	batch *pebble.Batch
	whole bool // one batch, which is not committed
	err   error
}

func (m *mover) apply(c, later *log.Contents) {
	for _, prefix := range c.Dropped() {
		if m.err == nil {
			m.err = m.batch.DeleteRange(prefix, records.After(prefix), nil)
		}
	}
	var value []byte
	pause := disk.NewBreath(&m.db.fs.Tempo)
	for _, key := range c.Keys() {
		if m.err != nil {
			return
		}
		pause.Take()
		if later.Changes(key) {
			continue
		}
		var isSet bool
		value, isSet, m.err = c.Value(value, key)
		if isSet && key == string(records.FormatKey) && !m.whole {
			m.raiseFormat(value)
		} else if isSet {
			m.set([]byte(key), value)
		} else {
			m.delete([]byte(key))
		}
	}
}

func (m *mover) set(key, value []byte) {
	if m.err == nil {
		m.err = m.batch.Set(key, value, nil)
	}
	m.mayCommit()
}

// raiseFormat raises the format of the store, which may be of a later version already.
func (m *mover) raiseFormat(record []byte) {
	version, err := versionOf(record)
	if err == nil {
		err = m.db.raiseFormat(version)
	}
	m.err = err
}

func (m *mover) delete(key []byte) {
	if m.err == nil {
		m.err = m.batch.Delete(key, nil)
	}
	m.mayCommit()
}

func (m *mover) mayCommit() {
	size := m.batch.Len() + perEntry*int(m.batch.Count())
	if m.err == nil && !m.whole && size > m.db.limits.batch {
		m.err = m.batch.Commit(pebble.NoSync)
		m.batch.Reset()
	}
}

// recover reads the logs that an earlier process left. A store that can be written gets their
// content, and a new log. One that is only read gets a view with their content.
func (d *database) recover(files vfs.FS) error {
	text, ok, err := get(d.pebble, records.ProgressKey)
	if err != nil {
		return err
	}
	at := records.Progress{Next: 1}
	if ok {
		if at, err = records.ReadProgress(text); err != nil {
			return err
		}
	}
	left, err := log.Recover(logFiles{files}, d.dir, at.Next)
	if !d.isShared { // otherwise a former leader may have begun a cut, or other members have the rest
		d.reportLost(left)
	}
	defer left.Close()
	if err != nil {
		return logError(err)
	}
	if d.isShared {
		if err := isComplete(left, at.Next, d.log.Whole()); err != nil {
			return err
		}
	}
	for _, c := range left.Contents {
		if err := checkLog(c); err != nil {
			return err
		}
	}
	if at.Begun > 0 && (len(left.Contents) == 0 || left.Contents[0].Length() < at.Begun) {
		return damage("the end of a log is missing")
	}
	if d.readOnly != nil {
		m := mover{db: d, batch: d.pebble.NewIndexedBatch(), whole: true}
		for _, c := range left.Contents {
			m.apply(c, nil)
		}
		d.view = &view{batch: m.batch}
		return m.err
	}
	next := at.Next
	if n := len(left.Numbers); n > 0 {
		next = max(next, left.Numbers[n-1]+1)
	}
	for i, c := range left.Contents {
		done := records.Progress{Next: c.Number() + 1}
		if i == len(left.Contents)-1 {
			done.Next = next // a log after it, if there is one, does not go on where it ends
		}
		if err := d.mayMove(files, c); err != nil {
			return err
		}
		begun := records.Progress{Next: c.Number(), Begun: c.Length()}
		if err := d.move(c, nil, begun, done); err != nil {
			return err
		}
	}
	if len(left.Contents) == 0 && next != at.Next {
		if err := d.move(new(log.Contents), nil, at, records.Progress{Next: next}); err != nil {
			return err
		}
	}
	if d.isShared {
		return d.takeLog(next)
	}
	d.log, err = log.Start(logFiles{files}, d.dir, next, left.Numbers)
	return err
}

// isComplete returns an error if what was read of a log that processes share does not reach the end
// of its whole cuts, beginning at the file with the number next.
func isComplete(left *log.Left, next uint64, whole log.Position) error {
	if whole.File < next {
		return nil // the store has all of it
	}
	if n := len(left.Contents); n > 0 {
		last := left.Contents[n-1]
		if (log.Position{File: last.Number(), Offset: last.Length()}) == whole {
			return nil
		}
	}
	return damage("a log cannot be read to its end")
}

// takeLog begins the next file of the log that several processes share. The store has the content
// of all files before that one.
func (d *database) takeLog(next uint64) error {
	last, err := d.log.Roll()
	if err != nil {
		return err
	}
	if last.File+1 != next {
		return damage(fmt.Sprintf("the log goes on with file %d instead of %d", last.File+1, next))
	}
	for _, n := range d.log.Full() {
		if err := d.log.Remove(n); err != nil {
			return err
		}
	}
	return nil
}

// reportLost logs what an earlier process left in logs and cannot be read, and the log that is
// missing.
func (d *database) reportLost(left *log.Left) {
	for _, l := range left.Lost {
		d.fail.logger.Error("the end of a log of the state cannot be read: informd goes on from the cut "+
			"before it; events are repeated, and dead letters, pauses and timers since then are lost. "+
			"Unless the machine lost power or the disk was full, look at the disk",
			"log", log.Name(l.File), "dir", d.dir, "readable", l.From, "lost", l.To-l.From)
	}
	if left.Missing > 0 {
		d.fail.logger.Error("a log of the state is missing: informd goes on from the cut before it; "+
			"events are repeated, and dead letters, pauses and timers since then are lost. Unless the "+
			"machine lost power, find out who removes files there",
			"log", log.Name(left.Missing), "dir", d.dir)
	}
}

// mayMove returns an error if the store has no room for the contents of a log that an earlier
// process left. It syncs the log: once the store may have parts of it, the rest must not be lost.
func (d *database) mayMove(files vfs.FS, c *log.Contents) error {
	usage, err := files.GetDiskUsage(d.dir)
	if err == nil && usage.TotalBytes > 0 && usage.AvailBytes < openingRoom+c.Size() {
		return &os.PathError{Op: "write", Path: d.dir, Err: syscall.ENOSPC}
	}
	if err := c.Sync(); err != nil {
		return err
	}
	return disk.SyncDir(files, d.dir)
}

// awaitMoved returns when the store has everything that was recorded before. Before Run, and while
// nothing can be written, it returns at once.
func (s *Store) awaitMoved(ctx context.Context) error {
	d := s.db.Load()
	if !s.running.Load() || d == nil || d.readOnly != nil || s.broken.Load() {
		return nil
	}
	return s.stored.await(ctx, s.last.Load(), func() {
		s.wantsMoved.Store(true)
		s.wake.send()
	})
}

// moveSoon waits as awaitMoved does, for at most a time.
func (s *Store) moveSoon(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = s.awaitMoved(ctx) // otherwise the caller finds less
}
