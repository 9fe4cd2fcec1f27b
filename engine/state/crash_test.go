package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// ledger is a workload of changes. Each change puts or deletes an object and leaves a waiting
// delivery. Some deliveries are acknowledged or become dead letters. The disk must always hold the
// state after one of the changes.
type ledger struct {
	t     testing.TB
	s     *Store
	i     *Objects
	lane  *Lane
	r     *rand.Rand
	n     int
	known map[string]int // every state so far, by its description; the value numbers the change
	objs  map[string]int
	wait  map[uint64]string
	dead  map[string]bool
}

func newLedger(t testing.TB, s *Store, seed uint64) *ledger {
	l := &ledger{
		t: t, s: s, i: s.Objects("i", ObjectsOptions{}), lane: s.Lane("r", LaneOptions{}), r: rand.New(rand.NewPCG(seed, 9)),
		known: map[string]int{}, objs: map[string]int{}, wait: map[uint64]string{}, dead: map[string]bool{},
	}
	_, err := l.i.Load()
	if err == nil {
		_, err = l.lane.Keys()
	}
	if err == nil {
		_, err = s.Letters()
	}
	if err != nil {
		t.Fatal(err)
	}
	l.known[l.describe()] = 0
	return l
}

// on makes the ledger go on with another Store of the same directory, which has loaded everything.
func (l *ledger) on(s *Store) {
	l.s, l.i, l.lane = s, s.Objects("i", ObjectsOptions{}), s.Lane("r", LaneOptions{})
}

func describe(version string, objects map[string]int, wait map[uint64]string, dead map[string]bool) string {
	return fmt.Sprint(version, objects, wait, dead) // fmt prints maps in order
}

func (l *ledger) describe() string {
	version := ""
	if l.n > 0 {
		version = fmt.Sprint(l.n)
	}
	return describe(version, l.objs, l.wait, l.dead)
}

func (l *ledger) change() {
	l.n++
	name := fmt.Sprint("o", l.r.IntN(20))
	o := obj(l.t, name, l.n, strings.Repeat("text", l.r.IntN(300)))
	l.s.recorded(func() {
		d := delta.Delta{Type: delta.Added, Object: o}
		if l.r.IntN(4) == 0 {
			l.i.Delete(key(name))
			delete(l.objs, name)
			d.Type = delta.Deleted
		} else {
			l.i.Put(o, []string{"r"})
			l.objs[name] = l.n
		}
		l.i.Version(fmt.Sprint(l.n))
		l.lane.Put(uint64(l.n), key(name), records.Delivery{Value: delivery.Delivery{Delta: d, Payload: []byte(`"` + name + `"`)}})
		l.wait[uint64(l.n)] = name
		for n, name := range l.wait {
			if l.r.IntN(8) > 0 {
				continue
			}
			l.lane.Delete(n, key(name))
			delete(l.wait, n)
			if id := fmt.Sprint("l", n); l.r.IntN(3) == 0 {
				l.s.PutLetter(delivery.Letter{ID: id, Delta: d})
				l.dead[id] = true
			}
		}
		for id := range l.dead {
			if l.r.IntN(8) == 0 {
				l.s.DeleteLetter(id)
				delete(l.dead, id)
			}
		}
		l.known[l.describe()] = l.n
	})
}

// read describes the state on disk. It returns an error for anything that was never recorded.
func read(s *Store) (string, error) {
	i := s.Objects("i", ObjectsOptions{})
	snapshot, err := i.Load()
	if err != nil {
		return "", err
	}
	objects := make(map[string]int)
	for _, o := range snapshot.Objects {
		n := 0
		fmt.Sscan(o.ResourceVersion(), &n)
		objects[o.Name()] = n
		if r := snapshot.Inside[keyOf(o)]; len(r) != 1 || r[0] != "r" {
			return "", fmt.Errorf("%s is inside of %v", o.Name(), r)
		}
	}
	lane := s.Lane("r", LaneOptions{})
	keys, err := lane.Keys()
	if err != nil {
		return "", err
	}
	wait := make(map[uint64]string)
	for _, k := range keys {
		got, err := lane.Load(k.Key, 0, 1000, 1<<30)
		if err != nil {
			return "", err
		}
		if len(got) != k.N {
			return "", fmt.Errorf("%d of %d wait", len(got), k.N)
		}
		for _, n := range got {
			wait[n.N] = string(n.Value.Payload[1 : len(n.Value.Payload)-1])
		}
	}
	list, err := s.Letters()
	if err != nil {
		return "", err
	}
	dead := make(map[string]bool)
	for _, l := range list {
		dead[l.ID] = true
	}
	return describe(snapshot.ResourceVersion, objects, wait, dead), nil
}

// readOnly describes the state on a disk that accepts no writes.
func readOnly(t *testing.T, dir string, o Options) string {
	t.Helper()
	files := newSickFS(o.disk)
	files.fall(failing(syscall.EROFS))
	o.disk = files
	s := open(t, dir, o)
	defer closed(t, s)
	found, err := read(s)
	if err == ErrSetAside {
		found, err = read(s)
	}
	if trouble := s.Status().Trouble; err != nil || trouble == "" {
		t.Fatalf("%v, trouble %q", err, trouble)
	}
	return found
}

// The test crashes at any operation on the disk, in any of Pebble's goroutines. Each unsynced block
// may or may not survive.
func TestCrashLeavesACut(t *testing.T) {
	long(t)
	type crash struct {
		disk   *vfs.MemFS
		latest int // the newest change written before the crash
	}
	for seed := range cases(3, 6) {
		files := vfs.NewCrashableMem()
		watching := newSickFS(files)
		o := onMemory(watching)
		if seed%2 == 1 {
			o.limits.log = 8 << 10 // so that logs grow full, and wait for the next one
		}
		s := open(t, "/state", o)
		l := newLedger(t, s, seed)
		var (
			latest  atomic.Int64
			crashes []crash
		)
		watching.fall(func(op, name string) error { // called with the disk's lock held
			if r := watching.random; r.IntN(4) == 0 {
				latest := int(latest.Load())
				crashes = append(crashes, crash{files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(3) * 50, RNG: r}), latest})
			}
			return nil
		})
		for n := range 60 {
			for range l.r.IntN(6) {
				l.change()
			}
			if l.r.IntN(3) > 0 {
				if err := s.flush(s.db.Load()); err != nil {
					t.Fatal(err)
				}
				latest.Store(int64(l.n))
			}
			if err := s.turn(); err != nil {
				t.Fatal(err)
			}
			if n%10 == 5 {
				if err := s.moved(); err != nil {
					t.Fatal(err)
				}
			}
		}
		watching.heal()
		closed(t, s)
		if len(crashes) < 30 {
			t.Errorf("only %d crashes", len(crashes))
		}
		for _, crash := range crashes {
			o := onMemory(crash.disk)
			o.limits.read = time.Minute // the disk is well, but a busy machine may not read in time
			onlyRead := readOnly(t, "/state", o)
			again := open(t, "/state", o)
			found, err := read(again)
			if err != nil {
				t.Fatal(err)
			}
			if onlyRead != found {
				t.Fatalf("seed %d: read-only it loads %s\nnot %s", seed, onlyRead, found)
			}
			n, ok := l.known[found]
			if !ok {
				t.Fatalf("seed %d: the state never was %s", seed, found)
			}
			if n < crash.latest {
				t.Fatalf("seed %d: found the state after change %d, but %d were written", seed, n, crash.latest)
			}
			if status := again.Status(); status.Trouble != "" || len(status.SetAside) > 0 {
				t.Fatalf("%+v", status)
			}
			closed(t, again)
		}
	}
}

// A log may be too large for one batch of Pebble. Even then a crash never leaves objects without
// their deliveries, nor a resourceVersion before everything that belongs to it.
func TestCrashWithinALargeCut(t *testing.T) {
	long(t)
	files := vfs.NewCrashableMem()
	var clones []*vfs.MemFS
	watching := newSickFS(files)
	o := onMemory(watching)
	o.limits.batch, o.limits.memory = 256<<10, 4<<20 // so Pebble makes tables before it has all
	s := open(t, "/state", o)
	i, lane := s.Objects("i", ObjectsOptions{}), s.Lane("r", LaneOptions{})
	if _, err := i.Load(); err != nil {
		t.Fatal(err)
	}
	s.recorded(func() { i.Put(obj(t, "first", 1, ""), nil); i.Version("1") })
	if err := s.flush(s.db.Load()); err != nil {
		t.Fatal(err)
	}
	r := rand.NewChaCha8([32]byte{1})
	s.recorded(func() {
		for n := range 900 {
			o := noise(t, r, fmt.Sprint("o", n), 10<<10)
			i.Put(o, nil)
			lane.Put(uint64(n+1), keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: o}}})
		}
		i.Version("2")
	})
	watching.fall(func(op, name string) error { // at every sync of a file
		if op == "sync" {
			clones = append(clones, files.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})
	if err := s.moved(); err != nil {
		t.Fatal(err)
	}
	watching.heal()
	clones = append(clones, files.CrashClone(vfs.CrashCloneCfg{}))
	closed(t, s)
	partly := 0
	for _, clone := range clones {
		if begun(t, clone) > 0 {
			partly++
		}
		s := open(t, "/state", onMemory(clone))
		snapshot := s.mustLoad(t, "i")
		keys, err := s.Lane("r", LaneOptions{}).Keys()
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(map[delta.Key]bool)
		for _, k := range keys {
			waiting[k.Key] = true
		}
		for _, o := range snapshot.Objects {
			if o.Name() != "first" && !waiting[keyOf(o)] {
				t.Errorf("%s is there without its delivery", o.Name())
			}
		}
		complete := len(snapshot.Objects) == 901
		if rv := snapshot.ResourceVersion; rv == "2" && !complete || rv == "1" && len(keys) > 0 {
			t.Errorf("resourceVersion %s with %d objects and %d deliveries", rv, len(snapshot.Objects), len(keys))
		}
		if len(keys) > 0 && !complete {
			t.Errorf("%d objects and %d deliveries: a part of a cut", len(snapshot.Objects), len(keys))
		}
		closed(t, s)
	}
	if partly == 0 {
		t.Error("Pebble got the log at once: this proves nothing")
	}
}

// begun returns how much of a log Pebble may have in parts.
func begun(t *testing.T, files vfs.FS) int64 {
	t.Helper()
	db, err := pebble.Open("/state/"+storeName, &pebble.Options{FS: files, FormatMajorVersion: pebble.FormatNewest, ReadOnly: true, Logger: &failure{logger: Options{}.withDefaults().Logger}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	text, ok, err := get(db, records.ProgressKey)
	if err != nil || !ok {
		return 0
	}
	p, err := records.ReadProgress(text)
	if err != nil {
		t.Fatal(err)
	}
	return p.Begun
}

// A state with damage in any place loads as an earlier state or is set aside. Either way the daemon
// starts.
func TestDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "good")
	s := open(t, dir, Options{limits: limits{log: 64 << 10}})
	l := newLedger(t, s, 1)
	for n := range 60 {
		for range 10 {
			l.change()
		}
		if err := s.flush(s.db.Load()); err != nil {
			t.Fatal(err)
		}
		if err := s.turn(); err != nil {
			t.Fatal(err)
		}
		if n == 20 || n == 40 {
			if err := s.moved(); err != nil {
				t.Fatal(err)
			}
		}
	}
	image := filepath.Join(t.TempDir(), "image") // as after kill -9
	copyLive(t, image, dir)
	closed(t, s)
	aside, earlier := 0, 0
	for seed := range cases(40, 80) {
		r := rand.New(rand.NewPCG(seed, 3))
		damagedDir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(damagedDir, os.DirFS(image)); err != nil {
			t.Fatal(err)
		}
		what := harm(t, r, filepath.Join(damagedDir, storeName))
		onlyRead := readOnly(t, damagedDir, Options{}.withDefaults())
		s := open(t, damagedDir, Options{limits: limits{opening: time.Minute}})
		found, err := read(s)
		for range 3 {
			if err != ErrSetAside {
				break
			}
			found, err = read(s)
		}
		if err != nil {
			t.Fatalf("seed %d (%s): %v", seed, what, err)
		}
		if onlyRead != found && len(s.Status().SetAside) == 0 {
			t.Errorf("seed %d (%s): read-only it loads %.300s\nnot %.300s", seed, what, onlyRead, found)
		}
		switch n, ok := l.known[found]; {
		case !ok:
			t.Errorf("seed %d (%s): the state never was %.300s", seed, what, found)
		case len(s.Status().SetAside) > 0:
			aside++
			if n != 0 {
				t.Errorf("seed %d (%s): a state that was set aside still loads something", seed, what)
			}
		case n < l.n:
			earlier++
		}
		if trouble := s.Status().Trouble; trouble != "" {
			t.Errorf("seed %d (%s): %s", seed, what, trouble)
		}
		s.recorded(func() { s.PutRule(RuleMemory{Name: "works"}) })
		closed(t, s)
		s = open(t, damagedDir, Options{})
		if rules, err := s.Rules(); err != nil || len(rules) != 1 {
			t.Errorf("seed %d (%s): afterwards %v, %v", seed, what, rules, err)
		}
		closed(t, s)
		if err := os.RemoveAll(damagedDir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("harmed: %d set aside, %d from an earlier moment", aside, earlier)
	if aside == 0 {
		t.Error("no harm was noticed")
	}
}

// harm truncates, overwrites or removes a file, or flips bits in it.
func harm(t *testing.T, r *rand.Rand, dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, entries[r.IntN(len(entries))].Name())
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	what := "remove"
	switch r.IntN(5) {
	case 0:
		what = "truncate"
		text = text[:r.IntN(len(text)+1)]
	case 1, 2:
		what = "flip"
		for range 1 + r.IntN(5) {
			if len(text) > 0 {
				text[r.IntN(len(text))] ^= 1 << r.IntN(8)
			}
		}
	case 3:
		what = "overwrite"
		if len(text) > 0 {
			from := r.IntN(len(text))
			for i := range text[from:min(len(text), from+1+r.IntN(4096))] {
				text[from+i] = byte(r.Uint32())
			}
		}
	case 4:
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return what + " " + filepath.Base(path)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return what + " " + filepath.Base(path)
}
