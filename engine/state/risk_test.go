package state

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// stuckFS does not answer when a compaction is noted.
type stuckFS struct {
	vfs.FS
	asked, release chan struct{}
}

func (s *stuckFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if s.PathBase(name) == compactingName {
		s.asked <- struct{}{}
		<-s.release
	}
	return s.FS.Create(name, c)
}

// Pebble says under its own lock that a compaction begins. Noting that on a disk that does not
// answer keeps nobody waiting for that lock. The note is gone once the store is closed.
func TestNotesOfCompactionsHoldNobodyUp(t *testing.T) {
	memory := vfs.NewMem()
	disk := &stuckFS{FS: memory, asked: make(chan struct{}, 10), release: make(chan struct{})}
	s := open(t, "/state", onMemory(disk))
	d := s.db.Load()
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
	<-disk.asked
	answered := make(chan struct{})
	go func() { d.pebble.Metrics(); close(answered) }() // takes Pebble's lock
	select {
	case <-answered:
	case <-time.After(10 * time.Second):
		t.Error("Pebble does not answer while a compaction is noted")
	}
	close(disk.release)
	if err := <-compacted; err != nil {
		t.Error(err)
	}
	if err := d.pebble.Delete([]byte("za"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	if n := ends(memory, "/state/"+storeName, compactingName); n != 0 {
		t.Errorf("%d compactions are noted after the end", n)
	}
}
