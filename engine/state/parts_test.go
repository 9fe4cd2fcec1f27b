package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
)

// A cut that is larger than a frame has several, and is one cut all the same: a process that is
// killed, or a machine that loses power, at any moment leaves the whole of it or nothing.
func TestCutOfSeveralFrames(t *testing.T) {
	for seed := range cases(2, 20) {
		files := vfs.NewCrashableMem()
		watching := newSickFS(files)
		o := well(watching)
		o.limits.part, o.limits.log = 2<<10, 20<<10
		s := open(t, "/state", o)
		l := newLedger(t, s, seed)
		var ends []*vfs.MemFS
		watching.fall(func(op, name string) error {
			if r := watching.random; len(ends) < 40 && r.IntN(5) == 0 {
				ends = append(ends, files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * r.IntN(3), RNG: r}))
			}
			return nil
		})
		const many = 30
		for range 12 {
			for range many {
				l.change()
			}
			if err := errors.Join(s.flush(s.db.Load()), s.turn()); err != nil {
				t.Fatal(err)
			}
		}
		watching.heal()
		killed := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: watching.random})
		closed(t, s)
		restarted(t, l, killed, l.n)
		if len(ends) < 10 {
			t.Fatalf("only %d ends", len(ends))
		}
		for _, end := range ends {
			found := foundBy(t, well(end))
			if n, ok := l.known[found]; !ok || n%many != 0 {
				t.Fatalf("found the state after change %d: %v; cuts have %d", n, ok, many)
			}
		}
	}
}

// While a log may have such a cut, the store is of a format that earlier versions refuse. A start
// ends that.
func TestFormatOfCutsOfSeveralFrames(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copied")
	s := open(t, dir, Options{limits: limits{part: 1 << 10}})
	l := newLedger(t, s, 1)
	for range 100 {
		l.change()
	}
	if err := s.flush(s.db.Load()); err != nil {
		t.Fatal(err)
	}
	copyLive(t, copied, dir)
	closed(t, s)
	versionIn := func(dir string) (version uint64) {
		meddle(t, dir, func(db *pebble.DB) error {
			text, _, err := get(db, records.FormatKey)
			if err == nil {
				version, err = records.ReadFormat(text)
			}
			return err
		})
		return version
	}
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(copied)); err != nil {
		t.Fatal(err)
	}
	if got := versionIn(copied); got != records.PartedFormat {
		t.Errorf("the format is %d, want %d", got, records.PartedFormat)
	}
	if found := foundIn(t, killed); found != l.describe() {
		t.Errorf("found %s, want %s", found, l.describe())
	}
	if got := versionIn(killed); got != records.FormatVersion {
		t.Errorf("the format is %d after a start, want %d", got, records.FormatVersion)
	}
}

// A record that cannot be made is no damage of the store: it stays as it is, and the next start goes
// on from it.
func TestRecordThatCannotBeMadeIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	s := run(t, open(t, dir, Options{}))
	s.recorded(func() { s.PutRule(RuleMemory{Name: "r"}) })
	s.written()
	i := s.Objects("i", ObjectsOptions{})
	i.opts.Packer = nil // packing panics
	s.recorded(func() { i.Put(obj(t, "a", 1, ""), nil); s.PutRule(RuleMemory{Name: "r2"}) })
	eventually(t, "the trouble shows", func() bool { return s.Status().Trouble != "" })
	s.stop()
	if _, err := os.Stat(filepath.Join(dir, storeName, risk.Damaged)); err == nil {
		t.Error("the store is marked as damaged")
	}
	again := open(t, dir, Options{})
	defer closed(t, again)
	if rules, err := again.Rules(); len(rules) != 1 || err != nil || len(again.Status().SetAside) > 0 {
		t.Errorf("rules %v, %v; set aside: %v", rules, err, again.Status().SetAside)
	}
}

func foundIn(t *testing.T, dir string) string {
	t.Helper()
	s := open(t, dir, Options{})
	found, err := read(s)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	return fmt.Sprint(found)
}
