package dispatch

import (
	"container/list"
	"log/slog"
	"sync"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Letter is a dead letter: an event that could not be delivered.
type Letter struct {
	ID            string // of the event
	Rule, Handler string
	Resource      handler.Resource
	Key           delta.Key
	Reason        string // at most 1 KiB; what the handler said
	Attempts      int
	Since         time.Time // when the change was first offered
	Died          time.Time
	Match         rule.Match
}

// DeadLetters keeps dead letters until they are taken. It is safe for concurrent use.
type DeadLetters interface {
	// Add keeps a letter, in the place of an older one of the same ID. Once it returned nil the event is no longer
	// anybody else's.
	Add(Letter) error
	// List has all letters, the oldest first.
	List() ([]Letter, error)
	// Len is how many there are. It is cheap.
	Len() int
	// Take removes a letter, to be redriven or forgotten. ok is false if there is none of that ID.
	Take(id string) (letter Letter, ok bool, err error)
}

// LetterStore keeps a record of each dead letter that a Memory holds. It is called with the Memory locked: it must be
// quick, and must not call the Memory.
type LetterStore interface {
	// PutLetter records a letter, in the place of an older one of the same ID.
	PutLetter(Letter)
	DeleteLetter(id string)
}

// MemoryOptions bound a Memory.
type MemoryOptions struct {
	MaxLetters int   // 0: 10,000
	MaxBytes   int64 // 0: 64 MiB
	Logger     *slog.Logger
	// Store is told of each letter that comes and goes. Whoever calls Add, Take or Restore sees to it that the record
	// belongs to the change that it is of, see Journal. nil means that there is none.
	Store LetterStore
}

// Memory keeps dead letters in memory. Past its bounds the oldest are dropped, which is counted and logged; the newest is
// kept however large.
type Memory struct {
	opts MemoryOptions

	mu      sync.Mutex
	letters *list.List // of Letter, the oldest in front
	byID    map[string]*list.Element
	bytes   int64
	dropped uint64
}

// MemoryStats tells what a Memory holds.
type MemoryStats struct {
	Letters int
	Bytes   int64
	Dropped uint64 // ever
}

var _ DeadLetters = (*Memory)(nil)

// NewMemory makes an empty Memory.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxLetters <= 0 {
		o.MaxLetters = 10_000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Memory{opts: o, letters: list.New(), byID: make(map[string]*list.Element)}
}

// Add never fails.
func (m *Memory) Add(l Letter) error {
	m.mu.Lock()
	if m.opts.Store != nil {
		m.opts.Store.PutLetter(l)
	}
	dropped := m.add(l)
	m.mu.Unlock()
	m.logDropped(dropped)
	return nil
}

// Restore puts back letters that were recorded, the oldest first, as far as the bounds allow. It is called before all
// else.
func (m *Memory) Restore(letters []Letter) {
	var dropped []Letter
	m.mu.Lock()
	for _, l := range letters {
		dropped = append(dropped, m.add(l)...)
	}
	m.mu.Unlock()
	m.logDropped(dropped)
}

func (m *Memory) logDropped(letters []Letter) {
	for _, dropped := range letters {
		m.opts.Logger.Warn("dead letter dropped: there are too many",
			"rule", dropped.Rule, "handler", dropped.Handler, "key", dropped.Key.String(), "id", dropped.ID)
	}
}

// add keeps l, and drops what is too much then.
func (m *Memory) add(l Letter) (dropped []Letter) {
	if e := m.byID[l.ID]; e != nil {
		m.remove(e)
	}
	m.byID[l.ID] = m.letters.PushBack(l)
	m.bytes += l.size()
	for m.letters.Len() > 1 && (m.letters.Len() > m.opts.MaxLetters || m.bytes > m.opts.MaxBytes) {
		oldest := m.remove(m.letters.Front())
		m.forget(oldest.ID)
		dropped = append(dropped, oldest)
		m.dropped++
	}
	return dropped
}

// List never fails.
func (m *Memory) List() ([]Letter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	letters := make([]Letter, 0, m.letters.Len())
	for e := m.letters.Front(); e != nil; e = e.Next() {
		letters = append(letters, e.Value.(Letter))
	}
	return letters, nil
}

// Get is a letter that stays where it is. ok is false if there is none of that ID.
func (m *Memory) Get(id string) (letter Letter, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if e == nil {
		return Letter{}, false
	}
	return e.Value.(Letter), true
}

// Len is how many letters are kept.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.letters.Len()
}

// Take never fails.
func (m *Memory) Take(id string) (letter Letter, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if e == nil {
		return Letter{}, false, nil
	}
	m.forget(id)
	return m.remove(e), true, nil
}

// Stats tells what is kept.
func (m *Memory) Stats() MemoryStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return MemoryStats{Letters: m.letters.Len(), Bytes: m.bytes, Dropped: m.dropped}
}

func (m *Memory) remove(e *list.Element) Letter {
	l := m.letters.Remove(e).(Letter)
	delete(m.byID, l.ID)
	m.bytes -= l.size()
	return l
}

// forget drops the record of a letter.
func (m *Memory) forget(id string) {
	if m.opts.Store != nil {
		m.opts.Store.DeleteLetter(id)
	}
}

func (l Letter) size() int64 { return delivery{match: l.Match}.size() + int64(len(l.ID)+len(l.Reason)) }
