package state

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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
		for from := d.log.End().Offset; d.log.End().Offset < from+bytes; n++ {
			s.recorded(func() { i.Put(obj(t, "x", n, ""), nil) })
			if err := s.append(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(calm bool, what string) {
		t.Helper()
		if got := d.fs.Tempo.IsCalm(); got != calm {
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
	s.wantsMoved.Store(true)
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
	if !d.fs.Tempo.IsEnding() {
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
	if d.fs.Tempo.IsEnding() {
		t.Error("it began with the end")
	}
	cancel()
	eventually(t, "the calm to end", d.fs.Tempo.IsEnding)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
