package state

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A process that is killed at any operation on the disk, while logs grow full and Pebble gets them,
// leaves everything that Await has waited for. A loss of power leaves everything that Written has
// waited for.
func TestKillWhileLogsAreMoved(t *testing.T) {
	long(t)
	type end struct {
		disk   *vfs.MemFS
		latest int // the newest change that must be there
	}
	for seed := range cases(2, 10) {
		files := vfs.NewCrashableMem()
		watching := newSickFS(files)
		o := well(watching)
		o.limits.log = 20 << 10
		s := open(t, "/state", o)
		l := newLedger(t, s, seed)
		running := run(t, s)
		var (
			awaited, synced, cloned atomic.Int64
			ends                    []end
		)
		watching.fall(func(op, name string) error { // called with the disk's lock held
			r := watching.random
			if len(ends) >= 60 || r.IntN(12) > 0 {
				return nil
			}
			cloned.Add(1)
			if r.IntN(3) == 0 {
				latest := int(synced.Load())
				ends = append(ends, end{files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(2) * 50, RNG: r}), latest})
			} else {
				latest := int(awaited.Load())
				ends = append(ends, end{files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r}), latest})
			}
			return nil
		})
		// How much one log takes in depends on how the changes and their writer take turns.
		enough := func() bool { return s.db.Load().log.End().File >= 4 && cloned.Load() >= 20 }
		for n := 0; n < 400 || n < 20_000 && !enough(); n++ {
			l.change()
			if cut := s.last.Load(); l.r.IntN(3) > 0 {
				_ = s.Await(t.Context(), cut)
				if s.logged.has(cut) {
					awaited.Store(int64(l.n))
				}
			}
			if n%50 == 49 {
				if err := s.Written(t.Context()); err == nil {
					synced.Store(int64(l.n))
				}
			}
		}
		watching.heal()
		running.stop()
		if !enough() {
			t.Errorf("only %d ends, and %d logs", len(ends), s.db.Load().log.End().File)
		}
		for _, end := range ends {
			restarted(t, l, end.disk, end.latest)
		}
	}
}

// well returns Options for a disk that never hangs: a busy machine may not read in time otherwise.
func well(files vfs.FS) Options {
	o := onMemory(files)
	o.limits.read = time.Minute
	return o
}

// restarted checks that a start finds a state that was, not older than the change latest, also if
// an earlier start ended at any operation.
func restarted(t *testing.T, l *ledger, files *vfs.MemFS, latest int) {
	t.Helper()
	watching := newSickFS(files)
	var ends []*vfs.MemFS
	watching.fall(func(string, string) error {
		if r := watching.random; len(ends) < 4 && r.IntN(20) == 0 {
			ends = append(ends, files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(3) * 50, RNG: r}))
		}
		return nil
	})
	first := foundBy(t, well(watching))
	n, ok := l.known[first]
	if !ok {
		t.Fatalf("the state never was %s", first)
	}
	if n < latest {
		t.Fatalf("found the state after change %d, want at least %d", n, latest)
	}
	for _, end := range ends {
		if second := foundBy(t, well(end)); second != first {
			t.Fatalf("after a start that ended, another one found %s\nnot %s", second, first)
		}
	}
}

// foundBy returns the state that a start finds.
func foundBy(t *testing.T, o Options) string {
	t.Helper()
	s := open(t, "/state", o)
	found, err := read(s)
	if err != nil {
		t.Fatal(err)
	}
	if status := s.Status(); status.Trouble != "" || len(status.SetAside) > 0 {
		t.Fatalf("%+v", status)
	}
	closed(t, s)
	return found
}
