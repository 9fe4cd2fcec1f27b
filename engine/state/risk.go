package state

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// These files are in the store's own directory, so they move with it when it is set aside. They are
// not synced, because they count processes that ended, not machines that crashed.
const (
	damagedName    = "DAMAGED"    // the daemon found the store damaged while it ran
	openingName    = "OPENING"    // how many times in a row the process crashed while opening it
	compactingName = "COMPACTING" // how many times in a row the process crashed while compacting it
	newestName     = "NEWEST"     // the number of the newest log that was made
)

// maxEnds is how often in a row the process may crash in the store while it opens or compacts it. A
// damaged store can make Pebble panic on a goroutine of its own. An operation is noted as a crash
// when it begins. The next start forgives that if the process ended in another way: it was killed,
// for want of memory perhaps, or crashed elsewhere. Without [Options].CatchCrashes, all ends count.
const maxEnds = 10

// unfit returns why the store must not be opened, or "".
func unfit(fs vfs.FS, store string) string {
	if _, err := fs.Stat(fs.PathJoin(store, damagedName)); err == nil {
		return damaged
	}
	if max(ends(fs, store, openingName), ends(fs, store, compactingName)) >= maxEnds {
		return unstartable
	}
	return ""
}

func ends(fs vfs.FS, store, name string) int {
	f, err := fs.Open(fs.PathJoin(store, name))
	if err != nil {
		return 0
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // an unreadable file counts as 0
	return n
}

// risk notes that the process begins an operation that it may not survive. Errors of the disk do
// not matter here.
func risk(fs vfs.FS, store, name string) {
	write(fs, store, name, strconv.Itoa(ends(fs, store, name)+1))
}

func write(fs vfs.FS, store, name, text string) {
	f, err := fs.Create(fs.PathJoin(store, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, _ = f.Write([]byte(text))
	_ = f.Close()
}

// survived ends the operation that risk noted.
func survived(fs vfs.FS, store, name string) { _ = fs.Remove(fs.PathJoin(store, name)) }

// compactions notes whether a compaction runs. Pebble calls began and ended under its own lock, so
// the disk is asked beside them, in order.
type compactions struct {
	disk  vfs.FS
	store string

	running atomic.Int32
	notes   sync.WaitGroup

	mu    sync.Mutex // held while the disk is asked; guards noted
	noted bool
}

func (c *compactions) began() {
	c.running.Add(1)
	c.notes.Go(c.note)
}

func (c *compactions) ended() {
	c.running.Add(-1)
	c.notes.Go(c.note)
}

func (c *compactions) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := c.running.Load() > 0
	switch {
	case runs == c.noted:
	case runs:
		risk(c.disk, c.store, compactingName)
	default:
		survived(c.disk, c.store, compactingName)
	}
	c.noted = runs
}
