package state

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/risk"
)

// stuckFS does not answer when a compaction is noted. Compactions wait for the note before they
// write: one that ends before it is noted leaves none.
type stuckFS struct {
	vfs.FS
	first   sync.Once
	noting  chan struct{} // closed when a compaction is being noted
	release chan struct{} // closed to answer
}

func newStuckFS(files vfs.FS) *stuckFS {
	return &stuckFS{FS: files, noting: make(chan struct{}), release: make(chan struct{})}
}

func (s *stuckFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	switch {
	case s.PathBase(name) == risk.Compacting:
		s.first.Do(func() { close(s.noting) })
		<-s.release
	case c == "pebble-compaction":
		select {
		case <-s.noting:
		case <-s.release:
		}
	}
	return s.FS.Create(name, c)
}

// Pebble says under its own lock that a compaction begins. Noting that on a disk that does not
// answer keeps nobody waiting for that lock. The note is gone once the store is closed.
func TestNotesOfCompactionsHoldNobodyUp(t *testing.T) {
	memory := vfs.NewMem()
	files := newStuckFS(memory)
	s := open(t, "/state", onMemory(files))
	d := s.db.Load()
	// Pebble may compact on its own after the second flush, or only on request.
	for _, value := range []string{"1", "2"} {
		for _, key := range []string{"za", "zb"} {
			if err := d.pebble.Set([]byte(key), []byte(value), pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.pebble.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	compacted := make(chan error, 1)
	go func() { compacted <- d.pebble.Compact(context.Background(), []byte("z"), []byte("zz"), false) }()
	select {
	case <-files.noting:
	case <-time.After(20 * time.Second):
		t.Error("nobody notes the compaction")
	}
	answered := make(chan struct{})
	go func() { d.pebble.Metrics(); close(answered) }() // takes Pebble's lock
	select {
	case <-answered:
	case <-time.After(10 * time.Second):
		t.Error("Pebble does not answer while a compaction is noted")
	}
	close(files.release)
	if err := <-compacted; err != nil {
		t.Error(err)
	}
	if err := d.pebble.Delete([]byte("za"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	if n := risk.Count(memory, "/state/"+storeName, risk.Compacting); n != 0 {
		t.Errorf("%d compactions are noted after the end", n)
	}
}
