package state

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Calm work rests once a stretch, and not before it has worked for one. In a hurry it does not
// stand back at all.
func TestBreath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var of tempo
		b, piece := &breath{tempo: &of}, stretch/10
		work := func(pieces int) (stoodBack []int) {
			for i := range pieces {
				began := time.Now()
				b.take()
				switch took := time.Since(began); took {
				case 0:
				case rest:
					stoodBack = append(stoodBack, i)
				default:
					t.Errorf("piece %d: it stood back for %v, want %v", i, took, rest)
				}
				time.Sleep(piece) // the work
			}
			return stoodBack
		}
		if got := work(25); got != nil {
			t.Errorf("before it was calm, it stood back before pieces %v", got)
		}
		of.isCalm.Store(true)
		if got := work(25); len(got) != 2 || got[0] != 10 || got[1] != 20 {
			t.Errorf("it stood back before pieces %v, want 10 and 20", got)
		}
		of.hurry()
		if got := work(25); got != nil {
			t.Errorf("in a hurry, it stood back before pieces %v", got)
		}
		of.isCalm.Store(true)
		of.end()
		if got := work(25); got != nil {
			t.Errorf("at the end, it stood back before pieces %v", got)
		}
		b = nil // as for files that are not tables
		if got := work(25); got != nil {
			t.Errorf("without a breath, it stood back before pieces %v", got)
		}
	})
}

// While it is calm, Pebble's tables are written with pauses. A log is not.
func TestTablesAreWrittenCalmly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := &patientFS{FS: vfs.NewMem()}
		fs.tempo.isCalm.Store(true)
		for name, want := range map[string]time.Duration{"000001.sst": 2 * rest, "cuts-00000001": 0} {
			file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for range 3 {
				if _, err := file.Write([]byte("part")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(stretch)
			}
			if got := time.Since(began) - 3*stretch; got != want {
				t.Errorf("%s: the writes stood back for %v, want %v", name, got, want)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Full logs are moved calmly. That ends when somebody waits: for a move at once, or with another log
// that is full. It begins again with the next log, unless Pebble is behind.
func TestCalm(t *testing.T) {
	t.Parallel()
	o := onMemory(vfs.NewMem())
	o.limits.log = 1 << 10
	s := open(t, "/state", o)
	i, d, n := s.Objects("i", ObjectsOptions{}), s.db.Load(), 0
	grow := func(bytes int64) {
		t.Helper()
		for from := d.log.Load().length.Load(); d.log.Load().length.Load() < from+bytes; n++ {
			s.recorded(func() { i.Put(obj(t, "x", n, ""), nil) })
			if err := s.append(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(calm bool, what string) {
		t.Helper()
		if got := d.fs.tempo.isCalm.Load(); got != calm {
			t.Errorf("%s: calm %v, want %v", what, got, calm)
		}
	}
	turn := func() {
		t.Helper()
		if err := s.turn(); err != nil {
			t.Fatal(err)
		}
	}
	expect(false, "at the start")
	grow(o.limits.log)
	s.tryAppend()
	expect(true, "with a full log")
	grow(o.limits.log)
	s.tryAppend()
	expect(false, "with another one that is full")
	turn()
	s.tryAppend()
	expect(true, "with that one")
	s.wantsSettled.Store(true)
	s.tryAppend()
	expect(false, "when somebody waits")
	turn()
	s.tryAppend()
	expect(false, "with a log to be moved at once")
	turn()
	grow(2 * o.limits.log)
	s.tryAppend()
	expect(false, "behind")
	turn()
	grow(o.limits.log)
	s.tryAppend()
	expect(true, "no longer behind")
	s.finish()
	s.close()
	if !d.fs.tempo.isEnding.Load() {
		t.Error("the end is as calm as before")
	}
}

// When informd ends, the calm does at once.
func TestCalmEnds(t *testing.T) {
	t.Parallel()
	s := open(t, "/state", onMemory(vfs.NewMem()))
	d := s.db.Load()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if d.fs.tempo.isEnding.Load() {
		t.Error("it began with the end")
	}
	cancel()
	eventually(t, "the calm to end", d.fs.tempo.isEnding.Load)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
