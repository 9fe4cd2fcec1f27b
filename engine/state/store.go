package state

import (
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/informd/informd/engine/delta"
)

// DefaultFlushEvery is how often a Store writes, if [Options] do not say. MaxFlushEvery is the seldomest.
const (
	DefaultFlushEvery = 500 * time.Millisecond
	MaxFlushEvery     = time.Second
)

const (
	// earlyFlush is how many bytes that are not written yet, about, have them written at once.
	earlyFlush = 8 << 20
	// paced is how many may not be written yet for Pace to return at once.
	paced = 32 << 20
	// maxUnwritten is how many may not be written yet for [Lane.Room] to say yes.
	maxUnwritten = 64 << 20
)

// Options are what a Store is made with. The zero Options work.
type Options struct {
	Logger     *slog.Logger  // nil discards
	FlushEvery time.Duration // 0: DefaultFlushEvery; at most MaxFlushEvery

	limits limits
	disk   vfs.FS                              // nil: the operating system's
	lock   func(dir string) (io.Closer, error) // nil: lockDir
}

// limits are what tests lower.
type limits struct {
	pause    time.Duration // before a failed operation of the disk is tried again
	patience time.Duration // what a write may take before that is trouble
	grace    time.Duration // what Run may take to write what is left
	retry    time.Duration // between attempts to open
	opening  time.Duration // what an attempt to open may take before Open goes on without
	load     time.Duration // what loading all of an informer, or all letters or rules, may take
	read     time.Duration // what loading a few deliveries may take
	size     time.Duration // between looks at how large the store is
	batch    int           // how many bytes a transaction may have before another one is begun
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
	o.FlushEvery = min(or(o.FlushEvery, DefaultFlushEvery), MaxFlushEvery)
	if o.disk == nil {
		o.disk = privateFS{vfs.Default}
	}
	if o.lock == nil {
		o.lock = lockDir
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
	return o
}

// Store is made by [Open]. Its methods, and those of its Informers and Lanes, may be called by any number of goroutines, but
// where they say otherwise.
type Store struct {
	dir    string
	opts   Options
	health *health

	opening sync.Mutex // held while the store is opened or set aside; of lock and doomed
	lock    io.Closer
	doomed  string // why what is on disk is to be set aside before anything is written; "" if it is not

	db      atomic.Pointer[database] // nil: nothing could be opened yet, and what is on disk does not count; it may be only read
	running atomic.Bool
	broken  atomic.Bool // nothing is taken or written any more

	// cut is held for reading while a change is recorded, and for writing while the records are swapped out.
	cut       sync.RWMutex
	unwritten tally
	inFlight  tally // swapped out, not yet on disk
	wake      chan struct{}
	rounds    rounds

	mu        sync.Mutex // of the rest
	informers map[string]*Informer
	lanes     map[string]*Lane
	records            // that belong to neither
	dropping  []owner  // those of records that are being written
	bound     *Cluster // by Bind
	setAside  []string

	// The ids of letters that are on disk or being written. nil as long as that is not known.
	buried map[string]struct{}
}

// records are those of the store as a whole. A nil value says that there is none any more.
type records struct {
	dropped []owner // everything of theirs goes, before anything is written
	rules   map[string]*Rule
	letters map[string]*Letter
	cluster *Cluster
}

func newRecords() records {
	return records{rules: make(map[string]*Rule), letters: make(map[string]*Letter)}
}

// tally counts records and their bytes, about.
type tally struct{ records, bytes atomic.Int64 }

func (t *tally) add(records, bytes int64) {
	t.records.Add(records)
	t.bytes.Add(bytes)
}

func (t *tally) take() (records, bytes int64) { return t.records.Swap(0), t.bytes.Swap(0) }

// Begin has everything that is recorded until End be part of one cut. Any number of goroutines may be between the two.
// Nobody calls Begin again in between, nor waits there for anybody who does.
func (s *Store) Begin() { s.cut.RLock() }

// End ends what Begin began.
func (s *Store) End() {
	s.cut.RUnlock()
	if s.unwritten.bytes.Load() > earlyFlush {
		select {
		case s.wake <- struct{}{}:
		default: // it was told
		}
	}
}

// Pace waits while more is recorded than a disk that does its work has had time to write: about 32 MiB. Who is about to
// record what the API server can wait with calls it first, not between Begin and End, so that what waits for handlers that
// are away finds room on disk at whatever speed it comes. A disk in trouble is not waited for.
func (s *Store) Pace() {
	for s.unwrittenBytes() > paced && s.running.Load() && !s.broken.Load() && s.db.Load() != nil && s.health.isWell() {
		time.Sleep(time.Millisecond)
	}
}

// Rule is what is kept of a rule.
type Rule struct {
	Name     string
	Resource string            // of the objects that it is about
	Seen     map[string]string // its where when it saw an informer's objects last, by the informer's id
	Paused   bool
}

// PutRule records a rule, in the place of one of that name. It is called between Begin and End.
func (s *Store) PutRule(r Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.Load() {
		return
	}
	if _, ok := s.rules[r.Name]; !ok {
		s.unwritten.records.Add(1)
	}
	s.rules[r.Name] = &r
}

// DropRule forgets a rule and everything that waits for it. The rule's Lane takes nothing any more; another one may be asked
// for. It is called between Begin and End.
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
	lane := newOwner(deliveryPrefix, name)
	s.dropped = append(s.dropped, lane)
	if l := s.lanes[name]; l != nil {
		l.dropped.Store(true)
		delete(s.lanes, name)
		records, bytes := l.unwrittenTally.take()
		s.unwritten.add(-records, -bytes)
	}
}

// DropInformer forgets an informer that is not asked for any more, and its objects. It is called between Begin and End.
func (s *Store) DropInformer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.Load() {
		return
	}
	s.dropped = append(s.dropped, newOwner(objectPrefix, id))
	s.unwritten.records.Add(1)
	if i := s.informers[id]; i != nil {
		i.dropped.Store(true)
		delete(s.informers, id)
	}
}

// isDropped tells whether what is on disk of an owner is about to go.
func (s *Store) isDropped(o owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.dropped, o) || slices.Contains(s.dropping, o)
}

// Status tells how a Store is.
type Status struct {
	Dir            string
	SizeBytes      int64     // on disk, as of a few seconds ago
	Unwritten      int       // records that are not on disk yet
	UnwrittenBytes int64     // about
	LastWrite      time.Time // when everything was last on disk that was recorded before; zero if never
	Trouble        string    // why the daemon runs without durability; "" if it does not
	TroubleSince   time.Time
	SetAside       []string // directories with earlier states that could not be used, the oldest first
}

// Status tells how the store is. It waits for nothing.
func (s *Store) Status() Status {
	s.mu.Lock()
	aside := append([]string(nil), s.setAside...)
	s.mu.Unlock()
	status := Status{
		Dir:            s.dir,
		Unwritten:      int(max(0, s.unwritten.records.Load()+s.inFlight.records.Load())),
		UnwrittenBytes: s.unwrittenBytes(),
		SetAside:       aside,
	}
	s.health.describe(&status)
	return status
}

func (s *Store) unwrittenBytes() int64 {
	return max(0, s.unwritten.bytes.Load()+s.inFlight.bytes.Load())
}

// Letter is what is kept of a dead letter.
type Letter struct {
	ID, Rule, Handler string
	Resource          string // of the object
	Key               delta.Key
	Reason            string
	Attempts          int
	Since, Died       time.Time
	Delta             delta.Delta
	Payload           json.RawMessage

	// Secret letters lose their reason, their payload and all but the identity of their objects when they are written.
	Secret bool
}
