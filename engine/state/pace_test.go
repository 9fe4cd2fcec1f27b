package state

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// outrun records more than Pace lets through at once.
func outrun(t *testing.T, s *Store) {
	t.Helper()
	lane := s.Lane("r", LaneOptions{})
	d := records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Added, Object: obj(t, "a", 1, strings.Repeat("x", 1<<20))}}}
	s.recorded(func() {
		for n := range uint64(paced>>20 + 2) {
			lane.Put(n+1, key("a"), d)
		}
	})
}

// paces returns whether Pace waits. It fails the test if Pace never returns.
func paces(t *testing.T, s *Store, until func()) {
	t.Helper()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		s.Pace()
	}()
	until()
	select {
	case <-returned:
	case <-time.After(20 * time.Second):
		t.Fatal("Pace does not return")
	}
}

func TestPaceWaitsForTheDisk(t *testing.T) {
	o := onMemory(vfs.NewMem())
	o.limits.patience = time.Minute // a slow machine must not pass for a sick disk
	s := open(t, "state", o)
	s.Pace() // returns: nobody writes yet
	outrun(t, s)
	s.Pace()
	r := run(t, s)
	eventually(t, "it runs", s.running.Load)
	paces(t, s, func() {})
	if got := s.unwrittenBytes(); got > paced {
		t.Errorf("%d bytes are not written", got)
	}
	r.written()
}

func TestPaceDoesNotWaitForASickDisk(t *testing.T) {
	files := newSickFS(vfs.NewMem())
	r := run(t, open(t, "state", onMemory(files)))
	r.recorded(func() {
		r.Lane("r", LaneOptions{}).Put(1, key("a"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "a", 1, "")}}})
	})
	r.written()
	files.hang()
	outrun(t, r.Store)
	paces(t, r.Store, func() {})
	if r.Status().Trouble == "" {
		t.Error("the disk hangs, but the status shows no trouble")
	}
	files.heal()
	r.written()
}
