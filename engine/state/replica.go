// The store of one of several processes that have the same log.

package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
)

// ErrDeposed is wrapped by errors of a Store that may add nothing to the log any more, because its
// process does not lead.
var ErrDeposed = errors.New("this informd does not lead")

// sharedPart is the length in bytes at which a frame ends that several processes agree on.
const sharedPart = 1 << 20

// Replica is the store of one of several processes that have the same log. One of them leads: it
// opens a [Store] with [Replica.Lead], and what that appends goes to all of them. The others follow:
// they write the entries that they get with [Replica.Apply], and move full logs into Pebble, without
// decoding any record but that of the format. So all of them have the same log, byte for byte, and
// from it the same content.
//
// A Replica keeps an entry over the end of the process, and over a loss of power once Sync has
// returned. Whoever made the entry must have it until then. Apply ignores entries that it gets again.
// An entry is missing if the log on disk was damaged: then Apply returns an error that wraps
// *[log.GapError], and the Replica has to begin anew.
//
// All methods are safe for concurrent use, but Apply and Install are called one at a time.
type Replica struct {
	dir, store string
	opts       Options
	files      *disk.Patient // of the log and of copies
	lock       io.Closer
	copies     atomic.Uint64 // snapshots that were begun
	log        atomic.Pointer[log.Log]
	propose    atomic.Pointer[func([]byte) error] // nil while it follows
	failed     atomic.Pointer[error]              // why it cannot go on
	over       chan struct{}                      // closed once failed is set
	rolled     signal                             // a file of the log is full
	format     atomic.Uint64                      // the newest version that the store is known to have
	// current is the database that was opened last: of the one that follows, or of a term.
	current atomic.Pointer[database]

	mu     sync.Mutex // guards the fields below; held while the role changes
	db     *database  // of the one that follows; nil while it leads
	stop   func()     // ends moving; nil while it leads
	leader *Store     // nil while it follows
}

// OpenReplica opens the replica in dir, or makes one, and locks the directory for this process. It
// follows until Lead. A disk at fault is an error. A store that cannot be used is set aside; the
// error wraps [ErrSetAside] then. The caller has to forget what this replica has agreed to before it
// calls OpenReplica again.
func OpenReplica(dir string, o Options) (*Replica, error) {
	o = o.withDefaults()
	r := newReplica(dir, o)
	if err := o.disk.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the state directory %s: %w", dir, err)
	}
	_ = disk.SyncDir(o.disk, o.disk.PathDir(dir)) // if denied, an earlier process made the directory
	lock, err := o.lock(dir)
	if err != nil {
		return nil, err
	}
	r.lock = lock
	if err := r.open(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return r, nil
}

// newReplica returns a Replica that is not open yet.
func newReplica(dir string, o Options) *Replica {
	return &Replica{
		dir: dir, opts: o, store: o.disk.PathJoin(dir, storeName), rolled: newSignal(),
		over: make(chan struct{}), files: disk.NewPatient(o.disk, o.limits.pause),
	}
}

// open opens what is on disk, and sets it aside if it cannot be used.
func (r *Replica) open() error {
	if err := tidy(r.opts.disk, r.dir); err != nil {
		return err
	}
	why, cause := "", error(nil)
	if _, err := r.opts.disk.Stat(r.opts.disk.PathJoin(r.store, risk.Damaged)); err == nil {
		why = damaged
	}
	if why == "" {
		if err := r.resume(); err == nil {
			return nil
		} else if cause = err; disk.IsAtFault(err) || errors.As(err, new(*VersionError)) {
			return err
		}
		why = reason(cause)
	}
	to, err := setAside(r.opts.disk, r.dir, why, r.opts.Clock.Now())
	if err != nil {
		return err
	}
	r.opts.Logger.Error("the state of this replica cannot be used: it is set aside, and the replica "+
		"gets the state of the others", "setAside", to, "error", fmt.Sprint(cause))
	return fmt.Errorf("%w: %w", ErrSetAside, errors.New(why))
}

// resume opens the store and its log, and follows.
func (r *Replica) resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.opts.disk.MkdirAll(r.store, 0o700); err != nil {
		return err
	}
	if err := disk.SyncDir(r.opts.disk, r.dir); err != nil {
		return err
	}
	return r.begin()
}

// begin opens the store and its log, and follows. The caller holds mu.
func (r *Replica) begin() error {
	d, next, err := r.openStore()
	if err != nil {
		return err
	}
	l, lost, err := log.Resume(logFiles{r.files}, r.store, next, r.agree)
	if err != nil {
		d.abandon()
		return logError(err)
	}
	for _, part := range lost { // the end of the process tears nothing
		r.opts.Logger.Warn("the log of this replica is damaged, or torn by a loss of power: the replica "+
			"writes the rest of it once more", "file", l.Path(part.File), "from", part.From,
			"to", part.To)
	}
	r.log.Store(l)
	d.log = l
	r.moveLogs(d, next)
	return nil
}

// agree implements the agree of the log: it proposes an entry.
func (r *Replica) agree(e log.Entry) error {
	propose := r.propose.Load()
	if propose == nil {
		return ErrDeposed
	}
	entry := e.Encode(nil)
	if _, err := log.ReadEntry(entry); err != nil { // or all processes would find it damaged
		return err
	}
	return (*propose)(entry)
}

// Apply takes an entry on which the processes have agreed. It waits while the disk hangs or fails. If
// the entry sets a newer format than this informd can read, the Replica follows, and cannot lead.
// After an error the Replica must be closed. The next OpenReplica sets aside what is damaged.
func (r *Replica) Apply(entry []byte) error {
	if failed := r.failed.Load(); failed != nil {
		return *failed
	}
	if err := r.write(entry); err != nil {
		return r.fail(err)
	}
	return nil
}

// write is Apply, but the Replica does not fail.
func (r *Replica) write(entry []byte) error {
	e, err := log.ReadEntry(entry)
	if err != nil {
		return damage(fmt.Sprintf("an entry of the log: %v", err)) // the leader has verified it
	}
	if record, ok := e.Only(records.FormatKey); ok {
		if err := r.raiseFormat(record); err != nil {
			return err
		}
	}
	l := r.log.Load()
	before := l.End().File
	if err := l.Write(e); err != nil {
		return err
	}
	if l.End().File != before {
		r.rolled.send()
	}
	return nil
}

// raiseFormat raises the format of the store, before the log has anything of the new version. If the
// store is closed just now, or the disk hangs, that is done when it is opened: see matchFormat.
func (r *Replica) raiseFormat(record []byte) error {
	version, err := versionOf(record)
	if err != nil {
		return err
	}
	r.noteFormat(version)
	d := r.current.Load() // after the note
	err = d.read(d.limits.read, func(pebble.Reader) error { return d.raiseFormat(version) })
	if errors.Is(err, errClosed) || disk.IsAtFault(err) {
		return nil
	}
	return err
}

// noteFormat notes a version of the format that the store has.
func (r *Replica) noteFormat(version uint64) {
	for was := r.format.Load(); was < version; was = r.format.Load() {
		if !r.format.CompareAndSwap(was, version) {
			continue
		}
		if why := r.outdated(); why != "" {
			r.opts.Logger.Error(why)
		}
	}
}

// matchFormat gives a store that was just opened the version that r has noted, or notes the store's
// version if that is newer.
func (r *Replica) matchFormat(d *database) error {
	r.noteFormat(d.format.current())
	return d.raiseFormat(r.format.Load())
}

// CheckFormat returns a *[VersionError] if the state is in a newer format than this informd reads,
// so that it cannot lead. It asks no other process, and does not wait. r has logged that already.
func (r *Replica) CheckFormat() error {
	if r.outdated() == "" {
		return nil
	}
	return &VersionError{Dir: r.dir, Found: r.format.Load(), Reads: records.NewestFormat}
}

// outdated returns why this informd cannot lead, because the state is in a format that it cannot read,
// or "".
func (r *Replica) outdated() string {
	found := r.format.Load()
	if found <= records.NewestFormat {
		return ""
	}
	return fmt.Sprintf("the replicas' state is in format %d, and this informd reads format %d and "+
		"earlier: it cannot lead until it is updated", found, records.NewestFormat)
}

// fail notes why the replica cannot go on, and returns it. If what is on disk is damaged, the next
// OpenReplica sets it aside. Not if other replicas would find the same: then none would be left.
func (r *Replica) fail(err error) error {
	err = fmt.Errorf("the state of this replica cannot be used: %w", err)
	if !r.failed.CompareAndSwap(nil, &err) {
		return *r.failed.Load()
	}
	close(r.over)
	isDamaged := errors.Is(err, errDamaged) || errors.As(err, new(*log.GapError))
	if isDamaged && !errors.Is(err, log.ErrMalformed) && !disk.IsAtFault(err) {
		risk.Begin(r.opts.disk, r.store, risk.Damaged)
	}
	return err
}

// Failed returns a channel that is closed when the Replica cannot go on, leading or following. Err
// says why. The Replica must be closed then.
func (r *Replica) Failed() <-chan struct{} { return r.over }

// Err returns why the Replica cannot go on, or nil.
func (r *Replica) Err() error {
	if failed := r.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// Sync returns when everything that was applied is on disk.
func (r *Replica) Sync() error {
	_, err := r.log.Load().Sync()
	return err
}

// Lead returns the Store of a term, in which this process leads. Everything that was agreed on
// before must have been applied. propose returns nil once an entry is agreed on and applied here. If
// it returns an error, the Store appends nothing more: its Await returns errors, and its Run must be
// ended. The Replica follows again when Run has returned. The errors of propose and of Lead wrap
// [ErrDeposed] if the process does not lead any more. A *[VersionError] means that the state is in a
// format that this informd cannot read: the Replica follows. After any other error it has failed.
func (r *Replica) Lead(propose func(entry []byte) error) (*Store, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed := r.failed.Load(); failed != nil {
		return nil, *failed
	}
	if r.leader != nil {
		return nil, errors.New("the store of the term before is not closed yet")
	}
	if err := r.CheckFormat(); err != nil {
		return nil, err
	}
	r.unfollow()
	r.propose.Store(&propose)
	o := r.opts
	o.replica, o.CatchCrashes, o.Strict = r, false, true
	o.limits.part = min(o.limits.part, sharedPart)
	o.lock = func(string) (io.Closer, error) { return closing(r.closed), nil }
	s, err := openShared(r.dir, o)
	if err != nil {
		r.propose.Store(nil)
		newer := new(VersionError)
		switch {
		case errors.As(err, &newer) && newer.Of == "":
			newer.Dir = r.dir
			r.noteFormat(newer.Found)
		case !errors.Is(err, ErrDeposed):
			return nil, r.fail(err)
		}
		return nil, errors.Join(err, r.followAgain())
	}
	r.leader = s
	return s, nil
}

// openShared opens the store of a term. Unlike Open, it sets nothing aside.
func openShared(dir string, o Options) (*Store, error) {
	isNew := o.replica.IsEmpty() // no process has led before
	d, err := openStore(o.disk, o.disk.PathJoin(dir, storeName), o)
	if err != nil {
		return nil, err
	}
	if err := o.replica.matchFormat(d); err != nil {
		return nil, errors.Join(err, d.close())
	}
	s := newStore(dir, o)
	s.opener.lock, _ = o.lock(dir)
	s.opener.isNew.Store(isNew)
	s.db.Store(d)
	return s, nil
}

type closing func()

// Close implements io.Closer.
func (c closing) Close() error {
	c()
	return nil
}

// closed follows again: the store of a term has closed.
func (r *Replica) closed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.propose.Store(nil)
	r.leader = nil
	_ = r.followAgain() // the next Apply returns it
}

// followAgain is follow after a term. The caller holds mu.
func (r *Replica) followAgain() error {
	if err := r.follow(); err != nil {
		return r.fail(err)
	}
	return nil
}

// follow begins to move full logs into Pebble again. The caller holds mu.
func (r *Replica) follow() error {
	d, next, err := r.openStore()
	if err != nil {
		return err
	}
	r.moveLogs(d, next)
	return nil
}

// openStore opens the store of one that follows. next is the number of the first log that the store
// does not have.
func (r *Replica) openStore() (d *database, next uint64, err error) {
	o := r.opts
	o.replica = r
	if err := recognise(o.disk, r.store); err != nil {
		return nil, 0, err
	}
	if d, err = openPebble(o.disk, r.store, false, o); err != nil {
		return nil, 0, err
	}
	err = d.locked(func(db pebble.Reader) (err error) {
		if err = d.checkFormat(db); errors.As(err, new(*VersionError)) { // it does not read records
			err = nil
		}
		if err == nil {
			err = r.matchFormat(d)
		}
		if err == nil {
			next, err = d.next()
		}
		return err
	})
	if err != nil {
		d.abandon()
		return nil, 0, err
	}
	if r.outdated() == "" {
		signStore(o.disk, r.store, o.Version)
	}
	return d, next, nil
}

// moveLogs begins to move full logs into the store of one that follows. The caller holds mu.
func (r *Replica) moveLogs(d *database, next uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.move(ctx, d, next); err != nil && ctx.Err() == nil {
			_ = r.fail(err) // the next Apply returns it
		}
	}()
	r.db, r.stop = d, func() {
		cancel()
		d.fs.Tempo.End()
		select {
		case <-done:
			return
		case <-time.After(time.Second): // the disk is in trouble
		}
		d.fs.End()
		<-done
	}
}

// Trouble returns why this informd could not work if it led, or "": what the disk does not do for the
// store, or that the store is in a newer format. What hinders the log hinders the store, but not the
// other way round.
func (r *Replica) Trouble() string {
	if why := r.outdated(); why != "" {
		return why
	}
	if d := r.current.Load(); d != nil && d.fs.Trouble() != nil {
		return d.fs.Trouble().Error()
	}
	return ""
}

// IsEmpty reports whether the log has never had anything.
func (r *Replica) IsEmpty() bool { return r.log.Load().End().File == 0 }

// unfollow ends what follow began. The caller holds mu.
func (r *Replica) unfollow() {
	if r.stop == nil {
		return
	}
	r.stop()
	err := r.db.close()
	r.stop, r.db = nil, nil
	if err != nil {
		r.opts.Logger.Debug("the state could not be closed cleanly", "error", err.Error())
	}
}

// next returns the number of the first log that the store has not got.
func (d *database) next() (uint64, error) {
	text, ok, err := get(d.pebble, records.ProgressKey)
	if err != nil || !ok {
		return 1, err
	}
	at, err := records.ReadProgress(text)
	return at.Next, err
}

// move moves full logs into the store until ctx ends. It removes those before next, which the store
// has.
func (r *Replica) move(ctx context.Context, d *database, next uint64) error {
	for {
		full := d.log.Full()
		for i, n := range full {
			// All replicas have a full log at the same moment, and the one that leads should not be slowed
			// down: in a trial it runs on the same machine. A replica that is behind hurries.
			switch behind := len(full) - i; {
			case behind <= 2:
				d.fs.Tempo.SetSlow()
			default:
				d.fs.Tempo.SetCalm(behind <= 4)
			}
			var err error
			switch kept := d.full.kept; {
			case ctx.Err() != nil:
				return nil
			case n < next:
				err = d.log.Remove(n)
			case kept == nil || kept.number < n:
				err = d.checkpoint(&fullLog{number: n}, func(*fullLog) {})
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-r.rolled:
		case <-ctx.Done():
			return nil
		}
	}
}

// Close ends the replica. A Store that Lead returned must have been closed.
func (r *Replica) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unfollow()
	return errors.Join(r.log.Load().Close(), r.lock.Close())
}
