package state

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/records"
)

func diskUsage(t testing.TB, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // Pebble removed the file meanwhile
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// noise returns an object of the given size that does not compress.
func noise(t testing.TB, r *rand.ChaCha8, name string, size int) *object.Object {
	bytes := make([]byte, size*3/4)
	_, _ = r.Read(bytes) // never fails
	return obj(t, name, 1, base64.StdEncoding.EncodeToString(bytes))
}

// However many deliveries pass through a lane, delivered ones do not stay on disk. Neither do
// former states of objects.
func TestSpaceComesBack(t *testing.T) {
	dir := t.TempDir()
	s := run(t, open(t, dir, Options{FlushEvery: time.Millisecond}))
	lane, i := s.Lane("r", LaneOptions{}), s.Objects("i", ObjectsOptions{})
	if _, err := lane.Keys(); err != nil {
		t.Fatal(err)
	}
	r := rand.NewChaCha8([32]byte{1})
	const rounds, each, size = 12, 2000, 4000 // writes 200 MB, of which 16 MB are live
	n, largest := uint64(0), int64(0)
	var objects []*object.Object
	for k := range each {
		objects = append(objects, noise(t, r, fmt.Sprint("o", k), size))
	}
	for range rounds {
		from := n
		for k := 0; k < each; k += 200 {
			s.recorded(func() {
				for _, o := range objects[k : k+200] {
					n++
					lane.Put(n, keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: o}}})
					i.Put(o, nil)
				}
			})
			s.written()
		}
		if onDisk := lane.disk.bytes.Load(); onDisk < each*size*8/10 || onDisk > each*size*13/10 {
			t.Errorf("the lane counts %d bytes on disk", onDisk)
		}
		s.recorded(func() {
			for k := from + 1; k <= n; k++ {
				lane.Delete(k, keyOf(objects[k-from-1]))
			}
		})
		s.written()
		largest = max(largest, diskUsage(t, dir))
	}
	if onDisk := lane.disk.bytes.Load(); onDisk != 0 {
		t.Errorf("the empty lane counts %d bytes on disk", onDisk)
	}
	t.Logf("at most %d MB, in the end %d MB", largest/1e6, diskUsage(t, dir)/1e6)
	if largest > 150e6 { // about half of it is Pebble's log and files that are not merged yet
		t.Errorf("%d MB are on disk, but only 16 MB are live", largest/1e6)
	}
	s.recorded(func() { s.DropInformer("i"); s.DropRule("r") })
	s.written()
	s.stop()
	s = run(t, open(t, dir, Options{FlushEvery: time.Millisecond}))
	// Pebble decides when it merges its files. A merge must not keep anything that was dropped.
	if err := s.db.Load().pebble.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the space comes back", func() bool { return diskUsage(t, dir) < 5e6 })
}

func TestRoom(t *testing.T) {
	s := run(t, open(t, t.TempDir(), Options{FlushEvery: time.Millisecond}))
	lane := s.Lane("r", LaneOptions{MaxBytes: 50_000})
	if _, err := lane.Keys(); err != nil {
		t.Fatal(err)
	}
	r := rand.NewChaCha8([32]byte{1})
	n := uint64(0)
	for lane.Room(4000) && n < 100 {
		n++
		s.recorded(func() {
			lane.Put(n, key("a"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: noise(t, r, "a", 4000)}}})
		})
		if n%3 == 0 {
			s.written()
		}
	}
	if n < 9 || n > 15 {
		t.Errorf("there was room for %d", n)
	}
	s.written()
	s.stop()
	if lane.Room(1 << 40) {
		t.Error("Room returns true for more than the lane may hold")
	}
}

// Every start makes its own dictionaries, while most objects stay the same.
func TestDictionariesDoNotAccumulate(t *testing.T) {
	long(t)
	dir := t.TempDir()
	count := func(s *Store) int {
		d := s.db.Load().dictionaries
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.users) > len(d.uses) {
			t.Errorf("%d dictionaries, %d uses", len(d.users), len(d.uses))
		}
		return len(d.users)
	}
	want := make(map[string]string)
	for start := range 3 * maxLoaded {
		s := open(t, dir, Options{})
		p := newPods(uint64(start))
		snapshot := s.mustLoad(t, "i")
		got := make(map[string]string)
		for _, o := range snapshot.Objects {
			got[o.Name()] = string(o.JSON())
		}
		if len(got) != len(want) {
			t.Fatalf("start %d: %d objects, not %d", start, len(got), len(want))
		}
		for name, text := range want {
			if got[name] != text {
				t.Fatalf("start %d: %s differs", start, name)
			}
		}
		if _, err := s.Lane("r", LaneOptions{}).Keys(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Letters(); err != nil {
			t.Fatal(err)
		}
		for n := range 60 {
			o := p.pod(t, start*1000+n, n, 2000)
			want[o.Name()] = string(o.JSON())
			s.recorded(func() {
				s.Objects("i", ObjectsOptions{}).Put(o, nil)
				s.Lane("r", LaneOptions{}).Put(uint64(start*1000+n+1), keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: o}}})
				s.PutLetter(delivery.Letter{ID: o.Name(), Delta: delta.Delta{Object: o}})
			})
		}
		if err := s.flush(s.db.Load()); err != nil {
			t.Fatal(err)
		}
		s.recorded(func() {
			for n := range 60 {
				o := newPods(uint64(start)).pod(t, start*1000+n, n, 2000)
				s.Lane("r", LaneOptions{}).Delete(uint64(start*1000+n+1), keyOf(o))
				s.DeleteLetter(o.Name())
			}
		})
		if start > maxLoaded {
			if n := count(s); n > maxLoaded+4 || n < 2 {
				t.Errorf("start %d: %d dictionaries", start, n)
			}
		}
		closed(t, s)
	}
	s := open(t, dir, Options{})
	defer closed(t, s)
	for _, o := range s.mustLoad(t, "i").Objects {
		if string(o.JSON()) != want[o.Name()] {
			t.Errorf("%s differs", o.Name())
		}
	}
}
