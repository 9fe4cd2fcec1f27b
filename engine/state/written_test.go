package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// A crash keeps everything that was recorded before Written returned nil. Written does not wait for
// the next regular flush, and concurrent callers share writes.
func TestWrittenSurvivesACrash(t *testing.T) {
	files := vfs.NewCrashableMem()
	o := onMemory(files)
	o.FlushEvery = MaxFlushEvery
	s := run(t, open(t, "/state", o))
	lane := s.Lane("r", LaneOptions{})
	const askers, times = 8, 20
	var (
		all    sync.WaitGroup
		mu     sync.Mutex // Put and Delete need one goroutine at a time
		clones = make(map[string]*vfs.MemFS)
		began  = time.Now()
	)
	for asker := range askers {
		all.Go(func() {
			for n := range times {
				name := fmt.Sprint("o", asker, "-", n)
				d := records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, name, n, "")}, Answer: delivery.Recorded([]byte(`[{}]`))}}
				s.recorded(func() {
					mu.Lock()
					defer mu.Unlock()
					lane.Put(uint64(inOrder+asker*times+n), key(name), d)
				})
				if err := s.Written(t.Context()); err != nil {
					t.Error(err)
				}
				if n%10 == asker {
					clone := files.CrashClone(vfs.CrashCloneCfg{})
					mu.Lock()
					clones[name] = clone
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > times*MaxFlushEvery/2 {
		t.Errorf("it took %v: each waited for the next write", took)
	}
	if len(clones) != askers*times/10 {
		t.Errorf("%d crashes", len(clones))
	}
	for name, clone := range clones {
		s := open(t, "/state", onMemory(clone))
		found, err := s.Lane("r", LaneOptions{}).Load(key(name), 0, 1, 1)
		if err != nil || len(found) != 1 || string(found[0].Value.Answer.Record()) != `[{}]` {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
		closed(t, s)
	}
}

// With nothing to write, Written returns at once.
func TestWrittenOfNothing(t *testing.T) {
	s := run(t, open(t, "/state", onMemory(vfs.NewMem())))
	s.written()
	for range 100 {
		if err := s.Written(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Written waits once for a disk that does not respond. While the disk is known to be in trouble, it
// does not wait again.
func TestWrittenInTrouble(t *testing.T) {
	for name, fall := range map[string]func(*sickFS){
		"full":    func(f *sickFS) { f.fall(failing(syscall.ENOSPC)) },
		"hanging": func(f *sickFS) { f.hang() },
	} {
		t.Run(name, func(t *testing.T) {
			files := newSickFS(vfs.NewMem())
			l := live(t, open(t, "/state", onMemory(files)))
			l.record(10)
			if err := l.Written(t.Context()); err != nil {
				t.Fatal(err)
			}
			fall(files)
			l.record(1)
			if err := l.Written(t.Context()); !errors.Is(err, ErrNotDurable) {
				t.Errorf("Written on a failing disk: %v", err)
			}
			eventually(t, "the status shows the trouble", func() bool { return l.Status().Trouble != "" })
			began := time.Now()
			for range 50 {
				if err := l.Written(t.Context()); !errors.Is(err, ErrNotDurable) || !strings.Contains(err.Error(), l.Status().Trouble) {
					t.Fatalf("Written on a disk in trouble: %v", err)
				}
			}
			if took := time.Since(began); took > 25*quick.patience {
				t.Errorf("50 times took %v", took)
			}
			files.heal()
			l.written()
			l.record(1)
			eventually(t, "Written succeeds again", func() bool { return l.Written(t.Context()) == nil })
		})
	}
}

func TestWrittenOfAReadOnlyStore(t *testing.T) {
	files := newSickFS(vfs.NewMem())
	s := open(t, "/state", onMemory(files))
	if err := s.Written(t.Context()); !errors.Is(err, ErrNotDurable) {
		t.Errorf("before Run: %v", err)
	}
	running := run(t, s)
	files.hang()
	running.recorded(func() { running.PutRule(RuleMemory{Name: "r"}) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := running.Written(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	files.heal()
	running.written()
	running.breakDown(s.db.Load(), errDamaged)
	if err := running.Written(t.Context()); !errors.Is(err, ErrNotDurable) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged: %v", err)
	}
	running.stop()

	files.fall(failing(syscall.EROFS))
	reading := run(t, open(t, "/state", onMemory(files)))
	if err := reading.Written(t.Context()); !errors.Is(err, ErrNotDurable) {
		t.Errorf("read-only: %v", err)
	}
}

// Writing an object leaves its text as it is for the event that waits for the record.
func TestWrittenObjectsStayPlain(t *testing.T) {
	s := run(t, open(t, t.TempDir(), Options{}))
	i := s.Objects("pods", ObjectsOptions{})
	if _, err := i.Load(); err != nil {
		t.Fatal(err)
	}
	o := newPods(1).pod(t, 1, 1, 2400)
	s.recorded(func() { i.Put(o, nil) })
	s.written()
	if _, _, ok := o.Packed(); !ok || o.IsPacked() {
		t.Errorf("packed: %v; packed only: %v", ok, o.IsPacked())
	}
}
