package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/records"
)

// strict is a strict store on a disk that the test controls.
func strict(t *testing.T, log *journal) (*life, *sickFS) {
	t.Helper()
	files := newSickFS(vfs.NewMem())
	o := onMemory(files)
	o.Strict, o.Logger = true, log.logger()
	l := live(t, open(t, "/state", o))
	t.Cleanup(files.heal) // before the store ends
	return l, files
}

// awaiting calls Await for the cut of a new record, and returns its error once it returns.
func (l *life) awaiting(ctx context.Context) <-chan error {
	l.n++
	cut := l.update(inOrder+uint64(l.n), obj(l.t, "a", l.n+1, ""), nil)
	got := make(chan error, 1)
	go func() { got <- l.Await(ctx, cut) }()
	return got
}

// stays checks that Await does not return within much more time than it has if it is not strict.
func stays(t *testing.T, what string, got <-chan error) {
	t.Helper()
	select {
	case err := <-got:
		t.Fatalf("%s: Await has returned %v", what, err)
	case <-time.After(3 * promptly):
	}
}

// A strict Await waits for the log as long as that takes.
func TestStrictAwait(t *testing.T) {
	for name, fall := range map[string]func(*sickFS){
		"unable to sync": func(f *sickFS) { f.fall(unableToSync) },
		"hanging":        func(f *sickFS) { f.hang() },
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			l, files := strict(t, &log)
			if err := <-l.awaiting(t.Context()); err != nil {
				t.Fatal(err)
			}
			fall(files)
			l.record(1)
			eventually(t, "the trouble shows", func() bool { return l.Status().Trouble != "" })
			eventually(t, "the log says so", func() bool { return log.count("; deliveries wait") > 0 })
			first, second := l.awaiting(t.Context()), l.awaiting(t.Context())
			stays(t, "one", first)
			stays(t, "another", second)
			ctx, cancel := context.WithCancel(t.Context())
			third := l.awaiting(ctx)
			cancel()
			if err := <-third; !errors.Is(err, context.Canceled) {
				t.Errorf("when its context has ended, Await returns %v", err)
			}
			files.heal()
			for _, got := range []<-chan error{first, second, l.awaiting(t.Context())} {
				if err := <-got; err != nil {
					t.Errorf("once the disk is well, Await returns %v", err)
				}
			}
			if err := l.AwaitAll(t.Context()); err != nil || !l.logged.has(l.last.Load()) {
				t.Errorf("AwaitAll returns %v", err)
			}
		})
	}
}

// unableToSync makes a disk take writes, and keep none. Once that shows, nothing is appended.
func unableToSync(op, _ string) error {
	if op == "sync" {
		return syscall.EIO
	}
	return nil
}

// Records that cancel each other while the disk is in trouble leave a cut to wait for.
func TestStrictAwaitOfNothing(t *testing.T) {
	l, files := strict(t, new(journal))
	if _, err := l.Lane("other", LaneOptions{}).Keys(); err != nil {
		t.Fatal(err)
	}
	files.fall(unableToSync)
	l.record(1)
	eventually(t, "the trouble shows", func() bool { return l.Status().Trouble != "" })
	lane := l.Lane("other", LaneOptions{})
	var cut uint64
	d := records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "b", 1, "")}}}
	l.recorded(func() { cut = lane.Put(inOrder, key("b"), d) })
	l.recorded(func() { lane.Delete(inOrder, key("b")) })
	if n := l.unwritten.records.Load(); n != 0 {
		t.Fatalf("%d records", n)
	}
	got := make(chan error, 1)
	go func() { got <- l.Await(t.Context(), cut) }()
	stays(t, "in trouble", got)
	files.heal()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// A strict Await returns an error when the store stops writing, whatever the reason, and afterwards.
func TestStrictAwaitOfAStoreThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(l *life)
		says string
	}{
		"damaged":     {func(l *life) { l.breakDown(l.db.Load(), errDamaged) }, "damaged"},
		"not writing": {func(l *life) { l.stopWriting(io.ErrShortWrite) }, "short write"},
		"over": {func(l *life) {
			l.Store.opts.limits.grace = time.Millisecond
			l.stop()
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, files := strict(t, new(journal))
			if err := <-l.awaiting(t.Context()); err != nil {
				t.Fatal(err)
			}
			files.hang()
			got := l.awaiting(t.Context())
			stays(t, "before", got)
			ended := make(chan struct{})
			go func() { // which may need the disk
				defer close(ended)
				c.end(l)
			}()
			if err := <-got; !errors.Is(err, ErrNotDurable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("a call that waits returns %v", err)
			}
			if err := <-l.awaiting(t.Context()); !errors.Is(err, ErrNotDurable) {
				t.Errorf("a later call returns %v", err)
			}
			files.heal()
			<-ended
			l.stop()
		})
	}
}

// What Run writes in the end is there for those who wait.
func TestStrictAwaitAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := onMemory(vfs.NewMem())
		o.Strict = true
		s := open(t, "/state", o)
		s.recorded(func() { s.PutRule(RuleMemory{Name: "r"}) })
		got := make(chan error, 1)
		go func() { got <- s.AwaitAll(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("before Run, Await returns %v", <-got)
		}
		closed(t, s)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if err := s.AwaitAll(t.Context()); err != nil {
			t.Errorf("of what is written: %v", err)
		}
		s.recorded(func() { s.PutRule(RuleMemory{Name: "late"}) })
		if err := s.AwaitAll(t.Context()); !errors.Is(err, ErrNotDurable) {
			t.Errorf("of what is not: %v", err)
		}
	})
}

// Without Strict, Await returns nil, whatever happens.
func TestAwaitReturnsNoError(t *testing.T) {
	files := newSickFS(vfs.NewMem())
	l := live(t, open(t, "/state", onMemory(files)))
	t.Cleanup(files.heal)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	files.hang()
	for range 3 {
		if err := <-l.awaiting(ctx); err != nil {
			t.Error(err)
		}
	}
	files.heal()
	l.breakDown(l.db.Load(), errDamaged)
	if err := <-l.awaiting(ctx); err != nil {
		t.Error(err)
	}
}

// An entry of replicas has what is recorded within a millisecond while much is recorded, so that
// events that were read together share one. An event that comes alone waits for nothing.
func TestEntriesOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := onMemory(vfs.NewMem())
		o.FlushEvery = 0
		r, err := OpenReplica(groupDir, o)
		if err != nil {
			t.Fatal(err)
		}
		var entries atomic.Int64
		s, err := r.Lead(func(entry []byte) error {
			entries.Add(1)
			return r.Apply(bytes.Clone(entry))
		})
		if err != nil {
			t.Fatal(err)
		}
		s.mustLoad(t, "pods")
		objects := s.Objects("pods", ObjectsOptions{Packer: new(object.Packer)})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Second)
		version := 0
		record := func(name string) {
			version++
			s.recorded(func() { objects.Put(obj(t, name, version, ""), nil) })
		}
		await := func(what string, most time.Duration) {
			began := time.Now()
			if err := s.AwaitAll(ctx); err != nil {
				t.Error(err)
			}
			if waited := time.Since(began); waited > most {
				t.Errorf("%s waits for %v", what, waited)
			}
		}
		for range 3 {
			record("alone")
			await("an event that comes alone", 0)
			time.Sleep(time.Second)
		}
		entries.Store(0)
		for range 50 {
			for i := range 10 {
				record(fmt.Sprint("together", i))
				go await("one of many events", sharedPause)
				time.Sleep(sharedPause / 20)
			}
			time.Sleep(15 * time.Millisecond)
		}
		if n := entries.Load(); n < 50 || n > 60 {
			t.Errorf("50 times ten events became %d entries", n)
		}
		entries.Store(0)
		for range 100 { // nothing waits for these
			record("b")
			time.Sleep(time.Millisecond)
		}
		if n := entries.Load(); n < 4 || n > 7 {
			t.Errorf("what is recorded in 100 ms became %d entries", n)
		}
		end()
		if err := errors.Join(<-ended, r.Close()); err != nil {
			t.Error(err)
		}
	})
}
