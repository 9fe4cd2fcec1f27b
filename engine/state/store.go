// The Store, its options and its status.

package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
	"k8s.io/utils/clock"
)

// DefaultFlushEvery is how often a Store writes unless [Options] say otherwise. MaxFlushEvery is
// the longest interval.
const (
	DefaultFlushEvery = 500 * time.Millisecond
	MaxFlushEvery     = time.Second
)

const (
	// gathering is how long records wait for others that are written with them, unless an event
	// waits for its own.
	gathering = 10 * time.Millisecond
	// With replicas a write is an entry of their log, which each of them syncs. So records wait for
	// sharedGathering. An event that comes within sharedBusy of the last write waits for sharedPause,
	// because others that were read together with it are about to be recorded.
	sharedGathering = 20 * time.Millisecond
	sharedPause     = time.Millisecond
	sharedBusy      = 100 * time.Millisecond
	// promptly is how long an event waits for its records.
	promptly = 100 * time.Millisecond
	// earlyFlush is roughly how many unwritten bytes start a write or a sync at once.
	earlyFlush = 8 << 20
	// maxUnsynced is how many bytes of the log may wait for a sync. Beyond that nothing is
	// appended.
	maxUnsynced = 16 << 20
	// maxLog is the length at which a log ends, and the store gets it. The larger it is, the fewer
	// states of an object the store gets, and the longer a start after a crash takes.
	maxLog = 32 << 20
	// paced is how many unwritten bytes make Pace wait.
	paced = 32 << 20
	// maxUnwritten is how many unwritten bytes make [Lane.Room] return false.
	maxUnwritten = 64 << 20
)

// Options configure a Store. The zero Options work.
type Options struct {
	Logger     *slog.Logger  // nil discards
	FlushEvery time.Duration // 0 means DefaultFlushEvery; at most MaxFlushEvery
	// Clock tells the time in logs, in Status and in file names. nil means the system's clock.
	Clock clock.PassiveClock
	// Memory holds the files in place of the disk. nil means the disk.
	Memory *InMemory
	// Version is the version of this informd. The store keeps it, for whoever cannot read the
	// store.
	Version string
	// CatchCrashes makes Go's runtime note crashes of this process in the directory. So a store is
	// set aside only if the process crashes in it again and again, and not if it is killed. One
	// Store of a process at a time may have this set.
	CatchCrashes bool
	// SetAside sets aside a state that a newer version has written. Otherwise Open refuses it.
	SetAside bool
	// Strict makes Await wait until the log has the cut. Await then returns an error if ctx ends or
	// the log can take nothing more.
	Strict bool

	replica *Replica // whose store it is; nil if no other process has the same
	limits  limits
	disk    vfs.FS                              // nil means the operating system's
	lock    func(dir string) (io.Closer, error) // nil means disk.Lock
}

// limits holds what tests change.
type limits struct {
	pause    time.Duration // before a failed operation of the disk is repeated
	patience time.Duration // how long a write may take before it counts as trouble
	grace    time.Duration // how long Run may take to write the rest
	retry    time.Duration // between attempts to open
	opening  time.Duration // how long Open waits for an attempt to open
	load     time.Duration // how long loading an informer, all letters or all rules may take
	read     time.Duration // how long loading a few deliveries may take
	size     time.Duration // between measurements of the store's size
	batch    int           // size in bytes at which a batch for Pebble ends
	memory   uint64        // size in bytes at which Pebble makes a table of its memory
	log      int64         // length in bytes at which a log ends
	part     int           // length in bytes at which a frame ends
	format   uint64        // version of the format of a store that one process has for itself
}

func or(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.FlushEvery = min(or(o.FlushEvery, DefaultFlushEvery), MaxFlushEvery)
	if o.Memory != nil {
		o.disk, o.lock = o.Memory.files, o.Memory.lock
	}
	if o.disk == nil {
		o.disk = disk.Private{FS: vfs.Default}
	}
	if o.lock == nil {
		o.lock = disk.Lock
	}
	l := &o.limits
	l.pause = or(l.pause, 50*time.Millisecond)
	l.patience = or(l.patience, 3*time.Second)
	l.grace = or(l.grace, 5*time.Second)
	l.retry = or(l.retry, 3*time.Second)
	l.opening = or(l.opening, 20*time.Second)
	l.load = or(l.load, 5*time.Minute)
	l.read = or(l.read, 10*time.Second)
	l.size = or(l.size, 2*time.Second)
	if l.batch == 0 {
		l.batch = maxBatch
	}
	if l.memory == 0 {
		l.memory = maxMemory
	}
	if l.log == 0 {
		l.log = maxLog
	}
	if l.part == 0 {
		l.part = log.MaxPart
	}
	if l.format == 0 {
		l.format = records.FormatVersion
	}
	return o
}

// Store is made by [Open]. Its methods, and those of its Informers and Lanes, are safe for
// concurrent use unless they say otherwise.
// Locks are taken in this order: cut, then mu. The records of a Lane or of Objects are guarded by
// cut and by its single caller.
type Store struct {
	dir    string
	opts   Options
	opener opener
	health *health

	// db is nil if nothing could be opened yet; what is on disk then does not count. The database
	// may be open for reading only.
	db      atomic.Pointer[database]
	running atomic.Bool
	broken  atomic.Bool // nothing more is recorded or written

	// cut turns a change of several records into one cut. A goroutine that records holds it for
	// reading, only to change maps. The writer holds it for writing while it exchanges the maps.
	cut    sync.RWMutex
	number uint64 // of the cut that is being recorded; guarded by cut

	backlog  // what is recorded and not on disk yet
	progress // how far the cuts have come, and who waits for them

	mu           sync.Mutex // guards the fields below
	informers    map[string]*Objects
	lanes        map[string]*Lane
	storeRecords            // records of no informer and no lane
	dropping     []dropping // owners that logs drop, and the store still has
	bound        *Cluster   // set by Bind
	entered      []byte     // the generation that this process has entered, as its note; nil if none

	// buried holds the ids of letters on disk or being written; nil until they are known.
	buried map[string]struct{}
}

// dropping is an owner that a log drops.
type dropping struct {
	owner records.Owner
	log   uint64
}

// records are the records of the store as a whole. A nil value means that the rule, note or letter
// is gone.
type storeRecords struct {
	dropped []records.Owner // owners whose records are all removed before anything else is written
	rules   map[string]*RuleMemory
	notes   map[records.NoteID][]byte
	letters map[string]*delivery.Letter
	cluster *Cluster
}

func newStoreRecords() storeRecords {
	return storeRecords{
		rules: make(map[string]*RuleMemory), notes: make(map[records.NoteID][]byte),
		letters: make(map[string]*delivery.Letter),
	}
}

// Begin begins a change: everything that is recorded until End belongs to one cut. Any number of
// goroutines may be between the two, only to record: they must not evaluate, log or wait there. A
// goroutine must not call Begin again before End.
func (s *Store) Begin() { s.cut.RLock() }

// End ends the change that Begin began.
func (s *Store) End() {
	if s.unwritten.records.Load() != 0 {
		s.last.Store(s.number)
	}
	s.cut.RUnlock()
	if s.unwritten.records.Load() != 0 && !s.stirred.Swap(true) {
		s.stir.send()
	}
	if s.unwritten.bytes.Load() > earlyFlush {
		s.wake.send()
	}
}

// Await returns when the operating system has a cut, and all before it: then they survive the end
// of the process. It waits a tenth of a second at most, and not at all while the disk is so slow
// that an earlier call did wait that long. Then it returns nil all the same. It ignores ctx. Do not
// call Await between Begin and End.
//
// With [Options].Strict, Await returns nil only when the log has the cut. Otherwise it waits until
// ctx ends and returns the error of ctx, or until the store stops writing. The error then wraps
// [ErrNotDurable].
func (s *Store) Await(ctx context.Context, cut uint64) error {
	if !s.opts.Strict {
		s.awaitLogged(cut)
		return nil
	}
	if s.broken.Load() { // what is recorded now belongs to no cut
		return s.whyOver()
	}
	err := s.awaitStrictly(ctx, cut)
	if errors.Is(err, errOver) {
		return s.whyOver()
	}
	return err
}

// AwaitAll is Await for everything that is recorded by now.
func (s *Store) AwaitAll(ctx context.Context) error { return s.Await(ctx, s.last.Load()) }

// whyOver returns the error of a strict Await when the log takes nothing more.
func (s *Store) whyOver() error {
	if err := s.isWriting(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotDurable, errOver)
}

// IsNew reports whether this process made the store. Then no other process can have delivered
// anything from it.
func (s *Store) IsNew() bool { return s.opener.isNew.Load() }

// Pace waits while more than about 32 MiB of records wait for the disk. Call it before recording
// something that the API server can hold back, outside of Begin and End. Then the disk has room for
// deliveries of handlers that are away, however fast they come. Pace does not wait for a disk in
// trouble.
func (s *Store) Pace() {
	for s.unwrittenBytes() > paced && s.running.Load() && !s.broken.Load() &&
		s.db.Load() != nil && s.health.isWell() {
		time.Sleep(time.Millisecond)
	}
}

// RuleMemory is the record of a rule besides its deliveries.
type RuleMemory = records.Rule

// PutRule records a rule. It replaces one with the same ID. Call it between Begin and End.
func (s *Store) PutRule(r RuleMemory) {
	if r.ID == "" {
		r.ID = r.Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.Load() {
		return
	}
	if _, ok := s.rules[r.ID]; !ok {
		s.unwritten.records.Add(1)
	}
	s.rules[r.ID] = &r
}

// DropRule removes the rule with an ID, its notes and its waiting deliveries. The rule's Lane
// records nothing more; Lane then returns a new one. Call it between Begin and End.
func (s *Store) DropRule(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.Load() {
		return
	}
	if _, ok := s.rules[name]; !ok {
		s.unwritten.records.Add(1)
	}
	s.rules[name] = nil
	lane := records.NewOwner(records.DeliveryPrefix, name)
	s.dropped = append(s.dropped, lane, records.NewOwner(records.NotePrefix, name))
	for id := range s.notes {
		if id.Rule == name {
			s.unwritten.add(-1, -int64(len(s.notes[id])))
			delete(s.notes, id)
		}
	}
	if l := s.lanes[name]; l != nil {
		l.dropped.Store(true)
		delete(s.lanes, name)
		records, bytes := l.unwrittenTally.take()
		s.unwritten.add(-records, -bytes)
	}
}

// DropInformer removes an informer and its objects. Call it between Begin and End.
func (s *Store) DropInformer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.Load() {
		return
	}
	s.dropped = append(s.dropped, records.NewOwner(records.ObjectPrefix, id))
	s.unwritten.records.Add(1)
	if i := s.informers[id]; i != nil {
		i.dropped.Store(true)
		delete(s.informers, id)
	}
}

// hides returns whether the records of an owner that the store has do not count, because they are
// about to be removed. It first gives the store what the log has, for at most a time.
func (s *Store) hides(o records.Owner, limit time.Duration) bool {
	s.mu.Lock()
	isDropped := slices.Contains(s.dropped, o)
	s.mu.Unlock()
	if isDropped {
		return true
	}
	s.moveSoon(limit)
	return s.isDropped(o)
}

// isDropped reports whether the records of an owner on disk are about to be removed.
func (s *Store) isDropped(o records.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.dropped, o) ||
		slices.ContainsFunc(s.dropping, func(d dropping) bool { return d.owner == o })
}

// Status describes a Store.
type Status struct {
	Dir            string
	SizeBytes      int64     // on disk, as of a few seconds ago
	Unwritten      int       // records not yet on disk
	UnwrittenBytes int64     // approximately
	LastWrite      time.Time // everything recorded before is on disk; zero means never
	Trouble        string    // why the daemon runs without durability; "" if it does not
	TroubleSince   time.Time
	SetAside       []string  // directories with earlier, unusable states, the oldest first
	LastSetAside   time.Time // when the last of them was set aside; zero without any
}

// Status returns the store's status. It does not wait.
func (s *Store) Status() Status {
	aside, last := s.opener.aside()
	status := Status{
		Dir:            s.dir,
		Unwritten:      int(s.unwrittenRecords()),
		UnwrittenBytes: s.unwrittenBytes(),
		SetAside:       aside,
		LastSetAside:   last,
	}
	s.health.describe(&status)
	return status
}

// IsWritten reports, once Run has returned, whether the next start has everything that was
// recorded.
func (s *Store) IsWritten() bool { return !s.broken.Load() && s.unwrittenRecords() == 0 }
