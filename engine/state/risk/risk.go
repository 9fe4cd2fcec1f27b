// Notes about operations that the process may not survive.

package risk

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// These are the names of notes. The files are in the store's own directory, so they move with it
// when it is set aside.
const (
	Damaged    = "DAMAGED"    // the daemon found the store damaged while it ran
	Opening    = "OPENING"    // how many times in a row the process crashed while opening it
	Compacting = "COMPACTING" // how many times in a row the process crashed while compacting it
)

// MaxEnds is how often in a row the process may crash in the store while it opens or compacts it. A
// damaged store can make Pebble panic on a goroutine of its own. An operation is noted as a crash
// when it begins. The next start forgives that if the process ended in another way: it was killed,
// for want of memory perhaps, or crashed elsewhere. Without [CountCrashes], all ends count.
const MaxEnds = 10

// Count returns how many times in a row the process ended during an operation.
func Count(fs vfs.FS, store, name string) int {
	f, err := fs.Open(fs.PathJoin(store, name))
	if err != nil {
		return 0
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // an unreadable file counts as 0
	return n
}

// Begin notes that the process begins an operation that it may not survive. Errors of the disk do
// not matter here.
func Begin(fs vfs.FS, store, name string) {
	write(fs, store, name, strconv.Itoa(Count(fs, store, name)+1))
}

func write(fs vfs.FS, store, name, text string) {
	f, err := fs.Create(fs.PathJoin(store, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, _ = f.Write([]byte(text))
	_ = f.Close()
}

// Survived ends the operation that Begin noted.
func Survived(fs vfs.FS, store, name string) { _ = fs.Remove(fs.PathJoin(store, name)) }

// Compactions notes whether a compaction runs. Pebble calls Began and Ended under its own lock, so
// the notes are written in goroutines of their own, one after the other.
type Compactions struct {
	disk  vfs.FS
	store string

	running atomic.Int32
	notes   sync.WaitGroup

	mu    sync.Mutex // held while a note is written; guards noted
	noted bool
}

// NewCompactions returns the Compactions of a store.
func NewCompactions(files vfs.FS, store string) *Compactions {
	return &Compactions{disk: files, store: store}
}

// Wait returns when all notes are written.
func (c *Compactions) Wait() { c.notes.Wait() }

// Began notes that a compaction runs.
func (c *Compactions) Began() {
	c.running.Add(1)
	c.notes.Go(c.note)
}

// Ended notes that a compaction has ended.
func (c *Compactions) Ended() {
	c.running.Add(-1)
	c.notes.Go(c.note)
}

func (c *Compactions) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := c.running.Load() > 0
	switch {
	case runs == c.noted:
	case runs:
		Begin(c.disk, c.store, Compacting)
	default:
		Survived(c.disk, c.store, Compacting)
	}
	c.noted = runs
}
