package state

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
)

// update records an update of an object and the delivery of it, and returns the delivery's cut.
func (l *life) update(n uint64, o, old *object.Object) (cut uint64) {
	l.recorded(func() {
		l.i.Put(o, nil)
		l.i.Version(o.ResourceVersion())
		d := delta.Delta{Type: delta.Updated, Object: o, Old: old}
		cut = l.lane.Put(n, keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: d}})
	})
	return cut
}

// What Await has waited for survives the end of the process without any sync: the copy of the
// directory has what the operating system has.
func TestAwaitedCutsSurviveTheProcess(t *testing.T) {
	dir := t.TempDir()
	l := live(t, open(t, dir, Options{FlushEvery: MaxFlushEvery}))
	old := obj(t, "a", 1, "")
	for n := range uint64(20) {
		o := obj(t, "a", int(n)+2, fmt.Sprint("text ", n))
		_ = l.Await(t.Context(), l.update(inOrder+n, o, old))
		copied := filepath.Join(t.TempDir(), "state")
		copyLive(t, copied, dir)
		s := open(t, copied, Options{})
		if got := versions(s.mustLoad(t, "i"))["a"]; got != o.ResourceVersion() {
			t.Errorf("version %s, want %s", got, o.ResourceVersion())
		}
		lane := s.Lane("r", LaneOptions{})
		found, err := lane.Load(key("a"), inOrder+n-1, 1, 1)
		if err != nil || len(found) != 1 {
			t.Fatalf("found %v, %v", found, err)
		}
		d := found[0].Value.Delta
		if diff := cmp.Diff([]string{string(o.JSON()), string(old.JSON())}, []string{string(d.Object.JSON()), string(d.Old.JSON())}); diff != "" {
			t.Errorf("the delivery (-want +got):\n%s", diff)
		}
		closed(t, s)
		old = o
	}
}

// Acknowledgements are written soon, though nobody waits for them.
func TestAcknowledgementsAreWrittenSoon(t *testing.T) {
	l := live(t, open(t, t.TempDir(), Options{}))
	o := obj(t, "a", 1, "")
	_ = l.Await(t.Context(), l.update(inOrder, o, nil))
	l.recorded(func() { l.lane.Delete(inOrder, key("a")) })
	eventually(t, "the log has it", func() bool { return l.logged.has(l.last.Load()) })
}

// The log holds the text of an object once, whatever deliveries there are of it.
func TestLogHoldsATextOnce(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	i := s.Objects("i", ObjectsOptions{})
	lanes := []*Lane{s.Lane("a", LaneOptions{}), s.Lane("b", LaneOptions{}), s.Lane("c", LaneOptions{})}
	p := newPods(1)
	old := p.pod(t, 1, 1, 4000)
	s.recorded(func() { i.Put(old, nil) })
	if err := s.flush(s.db.Load()); err != nil {
		t.Fatal(err)
	}
	before := s.db.Load().log.End().Offset
	o := p.pod(t, 1, 2, 4000)
	s.recorded(func() {
		i.Put(o, nil)
		for _, l := range lanes {
			l.Put(inOrder, keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Updated, Object: o, Old: old}}})
		}
	})
	if err := s.flush(s.db.Load()); err != nil {
		t.Fatal(err)
	}
	if size, most := s.db.Load().log.End().Offset-before, int64(o.Size())+700; size > most {
		t.Errorf("an object and three deliveries take %d bytes, want at most %d", size, most)
	}
	closed(t, s)
}

// An operating system that does not take a write holds up the first event for a moment, and no
// other.
func TestAwaitDoesNotWaitForAHangingDisk(t *testing.T) {
	files := newSickFS(vfs.NewMem())
	o := onMemory(files)
	o.limits.patience = time.Minute // nobody has noticed the trouble yet
	l := live(t, open(t, "/state", o))
	l.record(1)
	l.written()
	files.hang()
	began := time.Now()
	for n := range uint64(1000) {
		_ = l.Await(t.Context(), l.update(inOrder+n, obj(t, "a", int(n)+2, ""), nil))
	}
	if took := time.Since(began); took > 20*promptly {
		t.Errorf("1000 events waited for %v", took)
	}
	files.heal()
	l.written()
	eventually(t, "events wait again", func() bool { return !l.isLate.Load() })
}

// Logs that grew full while nobody moved them are replayed in order, and only up to where they are
// damaged.
func TestLogsAreReplayedInOrder(t *testing.T) {
	memory := vfs.NewMem()
	o := onMemory(memory)
	o.limits.log = 1
	s := open(t, "/state", o)
	i := s.Objects("i", ObjectsOptions{})
	put := func(n int) {
		s.recorded(func() { i.Put(obj(t, fmt.Sprint("o", n), n, ""), nil); i.Version(fmt.Sprint(n)) })
		if err := s.flush(s.db.Load()); err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	put(2) // in the next log
	d := s.db.Load()
	if n, err := log.Numbers(logFiles{memory}, "/state/store"); len(n) != 2 || err != nil {
		t.Fatalf("logs %v, %v", n, err)
	}
	tail := d.log.End().Offset
	for _, c := range []struct {
		name   string
		harm   func(files vfs.FS) error
		expect map[string]string
	}{
		{"both are whole", func(vfs.FS) error { return nil }, map[string]string{"o1": "1", "o2": "2"}},
		{"the last one is torn", func(files vfs.FS) error { return cutOff(files, d.log.Path(2), tail-1) }, map[string]string{"o1": "1"}},
		{"the first one is torn", func(files vfs.FS) error { return cutOff(files, "/state/store/"+log.Name(1), 40) }, map[string]string{}},
		{"the first one is gone", func(files vfs.FS) error { return files.Remove("/state/store/" + log.Name(1)) }, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := vfs.NewCrashableMem()
			if _, err := vfs.Clone(memory, files, "/state", "/state"); err != nil {
				t.Fatal(err)
			}
			if err := c.harm(files); err != nil {
				t.Fatal(err)
			}
			// What was left out does not come back, also if the first start is killed.
			watching := newSickFS(files)
			starts := []vfs.FS{watching, files}
			watching.fall(func(string, string) error {
				starts = append(starts, killed(files))
				return nil
			})
			for n := 0; n < len(starts); n++ {
				s := open(t, "/state", onMemory(starts[n]))
				if diff := cmp.Diff(c.expect, versions(s.mustLoad(t, "i"))); diff != "" {
					t.Errorf("start %d: %s", n, diff)
				}
				closed(t, s)
			}
		})
	}
	s.move(d, <-d.full.next)
	closed(t, s)
}

// Pebble gets a full log when the next one is full, without what that one changes again.
func TestFullLogsWaitForTheNext(t *testing.T) {
	memory := vfs.NewMem()
	o := onMemory(memory)
	o.limits.log = 1
	s := open(t, "/state", o)
	i, lane := s.Objects("i", ObjectsOptions{}), s.Lane("r", LaneOptions{})
	if _, err := lane.Keys(); err != nil {
		t.Fatal(err)
	}
	flush := func(record func()) {
		s.recorded(record)
		if err := s.flush(s.db.Load()); err != nil {
			t.Fatal(err)
		}
		if err := s.turn(); err != nil {
			t.Fatal(err)
		}
	}
	inPebble := func(k []byte) bool {
		_, ok, err := get(s.db.Load().pebble, k)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	same, busy := obj(t, "same", 1, ""), obj(t, "busy", 1, "")
	flush(func() {
		i.Put(same, nil)
		i.Put(busy, nil)
		lane.Put(inOrder, key("same"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: same}}})
		lane.Put(inOrder+1, key("busy"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: busy}}})
	})
	flush(func() {
		i.Put(obj(t, "busy", 2, ""), nil)
		lane.Delete(inOrder+1, key("busy"))
		i.Version("2")
	})
	for k, want := range map[string]bool{
		string(records.AppendObjectKey(nil, i.owner, key("same"))):                 true,
		string(records.AppendDeliveryKey(nil, lane.owner, key("same"), inOrder)):   true,
		string(records.AppendObjectKey(nil, i.owner, key("busy"))):                 false,
		string(records.AppendDeliveryKey(nil, lane.owner, key("busy"), inOrder+1)): false,
	} {
		if inPebble([]byte(k)) != want {
			t.Errorf("%q is in Pebble: %v", k, !want)
		}
	}
	crashed := vfs.NewMem() // the end of the process
	if _, err := vfs.Clone(memory, crashed, "/state", "/state"); err != nil {
		t.Fatal(err)
	}
	torn := vfs.NewMem()
	if _, err := vfs.Clone(memory, torn, "/state", "/state"); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	s = open(t, "/state", onMemory(crashed))
	if diff := cmp.Diff(map[string]string{"same": "1", "busy": "2"}, versions(s.mustLoad(t, "i"))); diff != "" {
		t.Error(diff)
	}
	if keys, err := s.Lane("r", LaneOptions{}).Keys(); err != nil || len(keys) != 1 || keys[0].Key != key("same") {
		t.Errorf("%v wait, %v", keys, err)
	}
	closed(t, s)
	if err := cutOff(torn, "/state/store/"+log.Name(2), 40); err != nil {
		t.Fatal(err)
	}
	s = open(t, "/state", onMemory(torn))
	if aside := s.Status().SetAside; len(aside) != 1 {
		t.Errorf("a store that depends on a log that is torn is not set aside: %v", aside)
	}
	closed(t, s)
}

// cutOff keeps the first bytes of a file.
func cutOff(files vfs.FS, name string, length int64) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	text := make([]byte, length)
	if _, err := f.ReadAt(text, 0); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	f, err = files.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Close()
}

// A clean end leaves no log, so that the next start has none to read.
func TestCleanEndLeavesNoLog(t *testing.T) {
	memory := vfs.NewMem()
	l := live(t, open(t, "/state", onMemory(memory)))
	l.record(100)
	l.stop()
	if n, err := log.Numbers(logFiles{memory}, "/state/store"); len(n) > 0 || err != nil {
		t.Errorf("logs %v, %v", n, err)
	}
	again := open(t, "/state", onMemory(memory))
	defer closed(t, again)
	l.found(t, again)
}

// A waiting delivery that only the log has is loaded.
func TestLoadFindsWhatTheLogHas(t *testing.T) {
	l := live(t, open(t, t.TempDir(), Options{}))
	eventually(t, "it runs", l.running.Store.running.Load)
	for n := range uint64(10) {
		o := obj(t, fmt.Sprint("o", n), 1, "")
		l.update(inOrder+n, o, nil)
		if found, err := l.lane.Load(keyOf(o), 0, 1, 1); len(found) != 1 || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
	}
}

// A mark wakes those who wait for it, and does not keep those whose time is over.
func TestMark(t *testing.T) {
	var m mark
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := m.await(ctx, 1, func() {}); err == nil {
		t.Error("a mark that nobody moved was reached")
	}
	if err := m.await(t.Context(), 2, func() { m.reach(m.reached.Load() + 1) }); err != nil {
		t.Error(err)
	}
}
