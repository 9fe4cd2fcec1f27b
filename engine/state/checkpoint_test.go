package state

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// A clean end writes what was recorded last, and gives the store every log.
func TestCleanEndLosesNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*Store)
	}{
		{"the last records fill a log", func(s *Store) { s.opts.limits.log = 1 }},
		{"somebody waits for the store to get the log", func(s *Store) { s.wantsMoved.Store(true) }},
		{"much waits for a sync", func(s *Store) { s.unsynced.add(1, 2*maxUnsynced) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := onMemory(vfs.NewMem())
			s := open(t, "/state", o)
			i := s.Objects("i", ObjectsOptions{})
			put := func(n int) { s.recorded(func() { i.Put(obj(t, fmt.Sprint("o", n), n, ""), nil) }) }
			put(1)
			if err := s.flush(s.db.Load()); err != nil {
				t.Fatal(err)
			}
			put(2)
			c.before(s)
			s.finish()
			s.close()
			s = open(t, "/state", o)
			defer closed(t, s)
			want := map[string]string{"o1": "1", "o2": "2"}
			if diff := cmp.Diff(want, versions(s.mustLoad(t, "i"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Records that cancel each other leave nothing that anybody would wait for, and what is recorded
// after them is appended soon.
func TestRecordsThatCancelEachOther(t *testing.T) {
	s := open(t, "/state", onMemory(vfs.NewMem()))
	defer closed(t, s)
	l := s.Lane("r", LaneOptions{})
	if _, err := l.Keys(); err != nil {
		t.Fatal(err)
	}
	o := obj(t, "a", 1, "")
	s.recorded(func() {
		l.Put(inOrder, keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: o}}})
	})
	s.recorded(func() { l.Delete(inOrder, keyOf(o)) })
	s.tryAppend()
	if last := s.last.Load(); !s.logged.has(last) {
		t.Errorf("cut %d of %d", s.logged.reached.Load(), last)
	}
	s.stirred.Store(true) // as if End had run during the append
	s.tryAppend()
	if s.stirred.Load() {
		t.Error("nobody asks for the next append")
	}
}

// The store may have parts of a log only once the disk has all of it. So a start after a crash,
// which a loss of power ends, leaves a state to start from.
func TestLossOfPowerDuringRecovery(t *testing.T) {
	long(t)
	files := vfs.NewCrashableMem()
	o := onMemory(files)
	s := open(t, "/state", o)
	i := s.Objects("i", ObjectsOptions{})
	r := rand.NewChaCha8([32]byte{2})
	s.recorded(func() { i.Put(obj(t, "first", 1, ""), nil) })
	if err := s.flush(s.db.Load()); err != nil {
		t.Fatal(err)
	}
	s.recorded(func() {
		for n := range 1000 {
			i.Put(noise(t, r, fmt.Sprint("o", n), 10<<10), nil)
		}
	})
	s.tryAppend()
	s.broken.Store(true) // the process ends
	s.db.Load().abandon()

	watching := newSickFS(files)
	var clones []*vfs.MemFS
	watching.fall(func(op, name string) error {
		if op == "sync" && strings.Contains(name, "MANIFEST") {
			clones = append(clones, files.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})
	o.disk = watching
	o.limits.batch, o.limits.memory = 256<<10, 2<<20 // so Pebble makes tables before it has all
	closed(t, open(t, "/state", o))
	watching.heal()
	partly := 0
	for _, clone := range clones {
		if begun(t, clone) > 0 {
			partly++
		}
		s := open(t, "/state", onMemory(clone))
		if aside := s.Status().SetAside; len(aside) > 0 {
			t.Errorf("%v", aside)
		} else if len(s.mustLoad(t, "i").Objects) == 0 {
			t.Error("what was synced is gone")
		}
		closed(t, s)
	}
	if partly == 0 {
		t.Error("Pebble got the log at once: this proves nothing")
	}
}

// A read that takes long holds up neither the log nor its syncs.
func TestLongReadsDoNotHoldUpTheLog(t *testing.T) {
	o := onMemory(vfs.NewMem())
	o.limits.log = 1
	l := live(t, open(t, "/state", o))
	l.record(1)
	l.written()
	d := l.db.Load()
	reads, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = d.read(time.Minute, func(pebble.Reader) error { close(reads); <-release; return nil })
	}()
	<-reads
	defer close(release)
	l.record(1)
	l.record(1)
	l.written()
	l.record(1)
	l.written()
}

// The store gets a log late if the log cannot be read for a while.
func TestLogThatCannotBeReadForAWhile(t *testing.T) {
	files := newSickFS(vfs.NewMem())
	o := onMemory(files)
	l := live(t, open(t, "/state", o))
	l.record(10)
	l.written()
	files.goBlind(syscall.EMFILE)
	l.wantsMoved.Store(true)
	l.wake.send()
	eventually(t, "it is noticed", func() bool { return l.Status().Trouble != "" })
	files.heal()
	l.record(10)
	l.written()
	l.stop()
	again := open(t, "/state", o)
	defer closed(t, again)
	l.found(t, again)
}

// The store gets a log from an earlier process only if there is room for it. A log holds an object
// once; the store holds it once per delivery.
func TestRecoveryOnANearlyFullDisk(t *testing.T) {
	memory := vfs.NewCrashableMem()
	s := open(t, "/state", onMemory(memory))
	r := rand.NewChaCha8([32]byte{3})
	i := s.Objects("i", ObjectsOptions{})
	s.recorded(func() {
		for n := range 20 {
			o := noise(t, r, fmt.Sprint("o", n), 20<<10)
			i.Put(o, nil)
			for rule := range 20 {
				d := delta.Delta{Type: delta.Added, Object: o}
				s.Lane(fmt.Sprint("r", rule), LaneOptions{}).Put(inOrder+uint64(n), keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: d}})
			}
		}
	})
	if err := s.flush(s.db.Load()); err != nil {
		t.Fatal(err)
	}
	memory = killed(memory)
	closed(t, s)
	memory.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: 4 << 20})
	s = open(t, "/state", onMemory(memory))
	if trouble := s.Status().Trouble; !strings.Contains(trouble, "no space left") {
		t.Errorf("trouble: %q", trouble)
	}
	if n := len(s.mustLoad(t, "i").Objects); n != 20 {
		t.Errorf("%d objects", n)
	}
	l := run(t, s)
	memory.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: 100 << 20})
	s.recorded(func() { i.Delete(key("none")) })
	l.written()
	l.stop()
	s = open(t, "/state", onMemory(memory))
	defer closed(t, s)
	if keys, err := s.Lane("r7", LaneOptions{}).Keys(); len(keys) != 20 || err != nil {
		t.Errorf("%d objects with events, %v", len(keys), err)
	}
}

// A process may end at any moment while it makes a store. The next one does not find it damaged.
func TestEndWhileTheStoreIsMade(t *testing.T) {
	files := vfs.NewMem()
	watching := newSickFS(files)
	var ends []*vfs.MemFS
	watching.fall(func(op, name string) error {
		ends = append(ends, vfs.NewMem())
		_, err := vfs.Clone(files, ends[len(ends)-1], "/state", "/state")
		return err
	})
	s := open(t, "/state", onMemory(watching))
	watching.heal()
	closed(t, s)
	if len(ends) < 10 {
		t.Errorf("only %d ends", len(ends))
	}
	for n, files := range ends {
		s := open(t, "/state", onMemory(files))
		if aside := s.Status().SetAside; len(aside) > 0 {
			t.Errorf("after %d operations: %v", n, aside)
		}
		closed(t, s)
	}
}

// A rule that is gone has no events to wait for.
func TestDroppedLanesHaveNoCut(t *testing.T) {
	s := open(t, "/state", onMemory(vfs.NewMem()))
	defer closed(t, s)
	l := s.Lane("r", LaneOptions{})
	s.recorded(func() {
		s.DropRule("r")
		o := obj(t, "a", 1, "")
		if cut := l.Put(inOrder, keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: o}}}); cut != 0 {
			t.Errorf("cut %d", cut)
		}
	})
}
