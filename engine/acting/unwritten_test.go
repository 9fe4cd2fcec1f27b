package acting

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/plugins/handler"
)

// openStrict opens a strict store, which does not run yet.
func openStrict(t *testing.T) *state.Store {
	t.Helper()
	store, err := state.Open(t.TempDir(), state.Options{Memory: state.NewInMemory(), Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func (w *world) within(f func()) {
	defer w.acting.options.State.Begin()()
	f()
}

// keepStrictly makes the world record its targets in a strict store, which does not run yet.
func (w *world) keepStrictly() *state.Store {
	store := openStrict(w.t)
	w.acting.options.Targets = targets.New(store)
	w.acting.options.State = live.Notes{Store: store}
	w.within(func() { w.prunes(true) })
	return store
}

// endRun runs a store only to write and close it.
func endRun(t *testing.T, store *state.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Run(ctx); err != nil {
		t.Error(err)
	}
}

// A wave whose targets cannot be written performs nothing, and says why it has stopped.
func TestUnwrittenTargets(t *testing.T) {
	for name, acts := range map[string]*delivery.Acts{
		"kept": {Pieces: []delivery.Piece{copies("1", "a", "b")}},
		"made": {Make: func(visit func(delivery.Piece) error) error { return visit(copies("1", "a", "b")) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			endRun(t, w.keepStrictly())
			acts.Digest, acts.Prunes = 1, true
			_, err := w.perform(1, acts)
			if !errors.Is(err, dispatch.ErrUnwritten) || !errors.Is(err, state.ErrNotDurable) {
				t.Errorf("the wave ends with %v", err)
			}
			equal(t, "requests", w.take(), nil)
		})
	}
}

// A wave waits until its targets are written.
func TestTargetsAreWrittenFirst(t *testing.T) {
	w := newWorld(t)
	store := w.keepStrictly()
	got := make(chan error, 1)
	go func() { got <- w.wish("a", 1, "n1", "n2") }()
	select {
	case err := <-got:
		t.Fatalf("the wave has ended with %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	equal(t, "requests", w.take(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	if err := <-got; err != nil {
		t.Error(err)
	}
	equal(t, "requests", w.take(), []string{"apply n1/x=1", "apply n2/x=1"})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A wave that waits for the log ends with its context.
func TestEndWhileTargetsAreWritten(t *testing.T) {
	w := newWorld(t)
	store := w.keepStrictly()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := w.acting.ForRules().Perform(ctx, dispatch.Performance{
		Key: w.key(), Event: w.about(1), Stop: func() bool { return false },
		Acts: &delivery.Acts{Prunes: true, Digest: 1, Pieces: []delivery.Piece{copies("1", "n1")}},
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the wave ends with %v", err)
	}
	equal(t, "requests", w.take(), nil)
	endRun(t, store)
}

// A target that has changed hands is left alone if that is not written.
func TestUnwrittenHeir(t *testing.T) {
	w := newWorld(t)
	w.prunes(true)
	if err := w.wish("a", 1, "n1"); err != nil {
		t.Fatal(err)
	}
	if err := w.wish("b", 2, "n1"); !errors.Is(err, handler.ErrReject) {
		t.Fatal(err)
	}
	if err := w.wish("a", 3); err != nil {
		t.Fatal(err)
	}
	equal(t, "heirs", w.heirs, []string{"shop/b"})
	w.take()

	store := openStrict(t)
	endRun(t, store)
	w.acting.options.State = live.Notes{Store: store}
	store.Begin()
	store.PutNote(state.Note{Rule: "r", Name: "n"}) // it stays unwritten
	store.End()
	if err := w.wish("b", 4, "n1"); !errors.Is(err, dispatch.ErrUnwritten) {
		t.Errorf("the wave ends with %v", err)
	}
	equal(t, "requests", w.take(), nil)
	w.acting.options.State = live.Notes{}
	if err := w.wish("b", 4, "n1"); err != nil {
		t.Error(err)
	}
	equal(t, "requests", w.take(), []string{"apply n1/x=4"})
}
