package state

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/records"
)

// maxBatch is the size in Pebble's memory, in bytes, at which a batch ends and another one begins.
// If a batch needs half of maxMemory, Pebble flushes it at once, with what it has in memory already.
// That makes more and smaller tables.
const maxBatch = 3 << 20

// perEntry is about how many bytes of Pebble's memory a key takes besides itself and its value.
const perEntry = 200

// maxMemory is the size in bytes at which Pebble makes a table of what it holds in memory. A write
// waits for tables while Pebble holds three times as much.
const maxMemory = 8 << 20

// fullLog is a log that is no longer written, and has all cuts up to one.
type fullLog struct {
	*cutLog
	upTo    uint64
	atOnce  bool // the store is to have it now, not when the next log is full
	content *contents
}

// rotate begins another log, and hands the one before it to the goroutine that makes checkpoints.
// Only the goroutine that appends calls rotate, and not before that goroutine has dealt with the
// last log that it was handed.
func (s *Store) rotate(d *database, atOnce bool) error {
	old := d.log.Load()
	log, err := createLog(d.fs, d.dir, old.number+1, old.length.Load())
	if err != nil {
		return err
	}
	noteNewest(d.fs, d.dir, log.number)
	d.listing.Lock()
	d.logs = append(d.logs, log)
	d.listing.Unlock()
	d.log.Store(log)
	d.isMoving.Store(true)
	// A log grows far beyond its limit if the one before it is not moved in time. Pebble is then
	// behind with its tables.
	isBehind := old.length.Load() > s.opts.limits.log+s.opts.limits.log/2
	d.fs.Tempo.SetCalm(!atOnce && !isBehind)
	d.full <- &fullLog{cutLog: old, upTo: s.logged.reached.Load(), atOnce: atOnce}
	return nil
}

// checkpoint reads a log that is full. It moves the log before it into the store, without what the
// full one changes again, and keeps the full one until its turn comes. Most deliveries and states
// of busy objects thus never reach the store. If the store is to have the full one at once, it
// moves that, too. It takes as long as the disk takes. After an error it may be called again.
func (s *Store) checkpoint(d *database, full *fullLog) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = damage(what)
		}
	}()
	if full.content == nil {
		if err := full.read(d); err != nil {
			return err
		}
	}
	if d.kept != nil && d.kept != full {
		if err := s.settleLog(d, d.kept, full.content); err != nil {
			return err
		}
	}
	d.kept = full
	if full.atOnce {
		if err := s.settleLog(d, full, nil); err != nil {
			return err
		}
	}
	d.isMoving.Store(false)
	return nil
}

// read syncs the log and reads it.
func (l *fullLog) read(d *database) error {
	if err := l.sync(d.fs); err != nil {
		return err
	}
	c, _, err := readLog(d.fs, d.dir, l.number, disk.NewBreath(&d.fs.Tempo))
	if err != nil {
		return err
	}
	if c.length != l.length.Load() {
		return errors.Join(damage("the log is shorter than it was written"), c.file.Close())
	}
	l.content = c
	return nil
}

// settleLog moves a log into the store and removes it. later is what the next log holds: the store
// then depends on it. It is nil if the next log does not count.
func (s *Store) settleLog(d *database, full *fullLog, later *contents) error {
	done := records.Progress{Next: full.number + 1}
	if later != nil {
		done.Begun = later.length
	}
	begun := records.Progress{Next: full.number, Begun: full.content.length}
	if err := d.move(full.content, later, begun, done); err != nil {
		return err
	}
	d.kept = nil
	_ = full.content.file.Close() // it was only read
	d.listing.Lock()
	d.logs = slices.DeleteFunc(d.logs, func(l *cutLog) bool { return l == full.cutLog })
	d.listing.Unlock()
	_ = full.close() // the store has its content
	if err := d.fs.Remove(full.path); err != nil {
		return err
	}
	s.mu.Lock()
	s.dropping = slices.DeleteFunc(s.dropping, func(o dropping) bool {
		return o.log <= full.number
	})
	s.mu.Unlock()
	s.settled.reach(full.upTo)
	return nil
}

// move writes the contents of a log to the store, without the keys that later changes. begun is the
// progress before everything is there, done the progress after that.
func (d *database) move(c, later *contents, begun, done records.Progress) error {
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

func (m *mover) apply(c, later *contents) {
	for _, prefix := range c.dropped {
		if m.err == nil {
			m.err = m.batch.DeleteRange(prefix, records.After(prefix), nil)
		}
	}
	var value []byte
	pause := disk.NewBreath(&m.db.fs.Tempo)
	for _, key := range slices.Sorted(maps.Keys(c.finals)) {
		if m.err != nil {
			return
		}
		pause.Take()
		if later.changes(key) {
			continue
		}
		f := c.finals[key]
		if f.kind == deleteChange {
			m.delete([]byte(key))
		} else if value, m.err = c.value(value, f.value); m.err == nil {
			m.set([]byte(key), value)
		}
	}
}

func (m *mover) set(key, value []byte) {
	if m.err == nil {
		m.err = m.batch.Set(key, value, nil)
	}
	m.mayCommit()
}

func (m *mover) delete(key []byte) {
	if m.err == nil {
		m.err = m.batch.Delete(key, nil)
	}
	m.mayCommit()
}

func (m *mover) mayCommit() {
	size := m.batch.Len() + perEntry*int(m.batch.Count())
	if m.err == nil && !m.whole && size > m.db.maxBatch {
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
	numbers, err := logsIn(files, d.dir)
	if err != nil {
		return err
	}
	next := at.Next
	if n := len(numbers); n > 0 {
		next = max(next, numbers[n-1]+1)
	}
	left, err := d.chain(files, numbers, at)
	defer func() {
		for _, c := range left {
			_ = c.file.Close() // it was only read
		}
	}()
	if err != nil {
		return err
	}
	if d.readOnly != nil {
		m := mover{db: d, batch: d.pebble.NewIndexedBatch(), whole: true}
		for _, c := range left {
			m.apply(c, nil)
		}
		d.view = m.batch
		return m.err
	}
	for i, c := range left {
		n := at.Next + uint64(i)
		done := records.Progress{Next: n + 1}
		if i == len(left)-1 {
			done.Next = next // a log after it, if there is one, does not go on where it ends
		}
		if err := d.mayMove(files, c); err != nil {
			return err
		}
		if err := d.move(c, nil, records.Progress{Next: n, Begun: c.length}, done); err != nil {
			return err
		}
	}
	if len(left) == 0 && next != at.Next {
		if err := d.move(&contents{}, nil, at, records.Progress{Next: next}); err != nil {
			return err
		}
	}
	log, err := createLog(files, d.dir, next, 0)
	if err != nil {
		return err
	}
	noteNewest(files, d.dir, next) // before the others go: it never names a log that informd removed
	for _, n := range numbers {
		if err := files.Remove(files.PathJoin(d.dir, logName(n))); err != nil && !disk.IsNotExist(err) {
			return errors.Join(err, log.close())
		}
	}
	d.listing.Lock()
	d.logs = []*cutLog{log}
	d.listing.Unlock()
	d.log.Store(log)
	return nil
}

// chain reads the logs from at.next on, as far as each goes on where the one before it ends. It
// reports what is in the logs beyond that, which is lost. The caller closes their files, also after
// an error.
func (d *database) chain(
	files vfs.FS, numbers []uint64, at records.Progress,
) (left []*contents, err error) {
	expected, length, ended := at.Next, int64(0), false
	for _, n := range numbers {
		if n < at.Next {
			continue // the store has it
		}
		c, previous, err := readLog(files, d.dir, n, nil)
		if err != nil {
			return left, err
		}
		ended = ended || n != expected || n != at.Next && previous != length
		if ended || c.length == 0 {
			_ = c.file.Close() // it was only read
			d.reportLost(n, 0, c.ofFile)
			ended = true
			continue
		}
		d.reportLost(n, c.length, c.ofFile)
		left = append(left, c)
		expected, length = n+1, c.length
	}
	if newest := newestLog(files, d.dir); newest >= at.Next && !slices.Contains(numbers, newest) {
		d.fail.logger.Error("a log of the state is missing: informd goes on from the cut before it; "+
			"events are repeated, and dead letters, pauses and timers since then are lost. Unless the "+
			"machine lost power, find out who removes files there", "log", logName(newest), "dir", d.dir)
	}
	if at.Begun > 0 && (len(left) == 0 || left[0].length < at.Begun) {
		return left, damage("the end of a log is missing")
	}
	return left, nil
}

// reportLost logs that the bytes of a log from an offset on are lost, if there are any. A power
// failure tears the end of a log; anything else that does is damage.
func (d *database) reportLost(number uint64, from, size int64) {
	if from < size {
		d.fail.logger.Error("the end of a log of the state cannot be read: informd goes on from the cut "+
			"before it; events are repeated, and dead letters, pauses and timers since then are lost. "+
			"Unless the machine lost power or the disk was full, look at the disk",
			"log", logName(number), "dir", d.dir, "readable", from, "lost", size-from)
	}
}

// mayMove returns an error if the store has no room for the contents of a log that an earlier
// process left. It syncs the log: once the store may have parts of it, the rest must not be lost.
func (d *database) mayMove(files vfs.FS, c *contents) error {
	usage, err := files.GetDiskUsage(d.dir)
	if err == nil && usage.TotalBytes > 0 && usage.AvailBytes < openingRoom+c.size() {
		return &os.PathError{Op: "write", Path: d.dir, Err: syscall.ENOSPC}
	}
	if err := c.file.Sync(); err != nil {
		return err
	}
	return disk.SyncDir(files, d.dir)
}

// settle returns when the store has everything that was recorded before. Before Run, and while
// nothing can be written, it returns at once.
func (s *Store) settle(ctx context.Context) error {
	d := s.db.Load()
	if !s.running.Load() || d == nil || d.readOnly != nil || s.broken.Load() {
		return nil
	}
	return s.settled.await(ctx, s.last.Load(), func() {
		s.wantsSettled.Store(true)
		s.wake.send()
	})
}

// settleSoon does what settle does, for at most a time.
func (s *Store) settleSoon(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = s.settle(ctx) // otherwise the caller finds less
}

// isUnsettled reports whether the store does not have everything that was recorded.
func (s *Store) isUnsettled() bool { return !s.settled.has(s.last.Load()) }
