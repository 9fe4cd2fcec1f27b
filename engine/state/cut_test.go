package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// An object came and went, and its two deliveries cancelled each other out. Pebble gets the cut in
// several batches.
func TestCancelledPairsDoNotReturnHalf(t *testing.T) {
	long(t)
	files := vfs.NewCrashableMem()
	var clones []*vfs.MemFS
	watching := newSickFS(files)
	o := onMemory(watching)
	o.limits.batch, o.limits.memory = 64<<10, 256<<10 // so Pebble makes tables before it has all
	s := open(t, "/state", o)
	i, lane := s.Objects("i", ObjectsOptions{}), s.Lane("r", LaneOptions{})
	if _, err := i.Load(); err != nil {
		t.Fatal(err)
	}
	s.recorded(func() {
		x := obj(t, "x", 1, "")
		i.Put(x, nil)
		lane.Put(1, key("x"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Added, Object: x}}})
		i.Version("1")
	})
	if err := s.flush(s.db.Load()); err != nil {
		t.Fatal(err)
	}
	r := rand.NewChaCha8([32]byte{1})
	s.recorded(func() {
		i.Delete(key("x"))
		lane.Delete(1, key("x"))
		for n := range 400 {
			i.Put(noise(t, r, fmt.Sprint("o", n), 5<<10), nil)
		}
		i.Version("2")
	})
	watching.fall(func(op, name string) error {
		if op == "sync" {
			clones = append(clones, files.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})
	if err := s.moved(); err != nil {
		t.Fatal(err)
	}
	watching.heal()
	closed(t, s)
	partly := 0
	for n, clone := range clones {
		if begun(t, clone) > 0 {
			partly++
		}
		s := open(t, "/state", onMemory(clone))
		snapshot := s.mustLoad(t, "i")
		keys, err := s.Lane("r", LaneOptions{}).Keys()
		if err != nil {
			t.Fatal(err)
		}
		known := false
		for _, o := range snapshot.Objects {
			known = known || o.Name() == "x"
		}
		if !known && len(keys) > 0 {
			t.Errorf("crash %d: x is no longer recorded, but its addition waits: its deletion would never be delivered (%d objects)", n, len(snapshot.Objects))
		}
		closed(t, s)
	}
	if partly == 0 {
		t.Error("Pebble got the log at once: this proves nothing")
	}
}

// A Load during the write of a cut of several transactions returns deliveries without gaps.
func TestLoadedDeliveriesHaveNoGaps(t *testing.T) {
	s := open(t, t.TempDir()+"/state", Options{limits: limits{batch: 256 << 10}})
	lane := s.Lane("r", LaneOptions{})
	defer closed(t, s)
	if _, err := lane.Keys(); err != nil {
		t.Fatal(err)
	}
	r := rand.NewChaCha8([32]byte{1})
	s.recorded(func() {
		for n := range 1000 {
			lane.Put(uint64(n+1), key("x"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: noise(t, r, "x", 5<<10)}, Payload: []byte(fmt.Sprint(n))}})
		}
	})
	done := make(chan error)
	go func() { done <- s.flush(s.db.Load()) }()
	for over := false; !over; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
		}
		got, err := lane.Load(key("x"), 0, 32, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range got {
			if d.N != uint64(i+1) {
				t.Errorf("%d deliveries loaded: number %d of them is %d, so earlier ones are skipped forever (queue.feed: after = N)", len(got), i+1, d.N)
				over = true
				break
			}
		}
	}
}

// Dead letters that are retried have a number range of their own. They leave the count of records
// on disk as it was.
func TestRedrivenDeliveriesAreCounted(t *testing.T) {
	s := open(t, t.TempDir()+"/state", Options{FlushEvery: time.Millisecond})
	lane := s.Lane("r", LaneOptions{})
	if _, err := lane.Keys(); err != nil {
		t.Fatal(err)
	}
	r := run(t, s)
	d := records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Added, Object: obj(t, "a", 1, "x")}}}
	s.recorded(func() {
		for n := range uint64(100) {
			lane.Put(inOrder+n, key("a"), d)
		}
	})
	r.written()
	before := lane.disk.records.Load()
	for n := range uint64(60) {
		s.recorded(func() {
			lane.Put(1000+n, key("b"), d)
			lane.Delete(1000+n, key("b"))
		})
	}
	r.written()
	if after := lane.disk.records.Load(); before != 100 || after != 100 {
		t.Errorf("%d records, and %d after 60 that came and went", before, after)
	}
}

// A lane that is never empty at a start does not collect dictionaries forever.
func TestDictionariesOfALaneAreBounded(t *testing.T) {
	dir := t.TempDir() + "/state"
	for life := range uint64(2 * maxLoaded) {
		s := open(t, dir, Options{FlushEvery: time.Millisecond})
		i, lane := s.Objects("i", ObjectsOptions{}), s.Lane("r", LaneOptions{})
		if _, err := i.Load(); err != nil {
			t.Fatal(err)
		}
		if _, err := lane.Keys(); err != nil {
			t.Fatal(err)
		}
		r := run(t, s)
		s.recorded(func() {
			for n := range 200 {
				i.Put(obj(t, fmt.Sprint("o", n), int(life)*1000+n, fmt.Sprintf("life %d, a text that is in all of them %d", life, n%7)), nil)
			}
		})
		r.written() // from here on the packer has a dictionary
		s.recorded(func() {
			o := obj(t, "a", int(life), "a text that is in all of them")
			i.Put(o, nil)
			lane.Put(inOrder+life, key("a"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Added, Object: o}}})
			if life > 0 {
				lane.Delete(inOrder+life-1, key("a"))
			}
		})
		r.written()
		if n := s.db.Load().dictionaries.count(lane.owner); n > maxLoaded+1 {
			t.Fatalf("%d dictionaries of one delivery, after %d lives", n, life+1)
		}
		r.stop()
	}
}
