package acting

import (
	"context"
	"errors"
	"testing"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/plugins/handler"
)

var errDeposed = errors.New("another one leads")

// A rule's own actions ask once for each attempt whether this informd leads, before the first request.
func TestVerifyBeforeAWave(t *testing.T) {
	w := newWorld(t)
	asked := 0
	var why error
	w.acting.options.Verify = func(context.Context) error {
		asked++
		equal(t, "requests before", w.take(), nil)
		return why
	}
	pieces := []delivery.Piece{copies("1", "a", "b", "c"), step(1, apply("d", "x", "1"))}
	why = errDeposed
	for range 2 {
		if err := w.do(1, pieces...); !errors.Is(err, dispatch.ErrNotLeading) || !errors.Is(err, dispatch.ErrStopped) ||
			!errors.Is(err, errDeposed) {
			t.Errorf("the wave ends with %v", err)
		}
	}
	equal(t, "asked", asked, 2)
	equal(t, "requests", w.take(), nil)

	why = nil
	if err := w.do(1, pieces...); err != nil {
		t.Fatal(err)
	}
	equal(t, "asked", asked, 3)
	equal(t, "requests", w.take(), []string{"apply a/x=1", "apply b/x=1", "apply c/x=1", "apply d/x=1"})
	if err := w.do(1, pieces...); err != nil {
		t.Fatal(err)
	}
	equal(t, "asked for what is done", asked, 3)
}

// An answer whose actions may not be performed performs nothing.
func TestVerifyBeforeAnAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t) // has no executor
	w.acting.options.Verify = func(context.Context) error { return errDeposed }
	actions := []handler.Action{apply("a", "x", "1")}
	err := w.acting.ForRules().Do(ctx, w.about(1), actions)
	if !errors.Is(err, dispatch.ErrNotLeading) || !errors.Is(err, errDeposed) {
		t.Errorf("got %v", err)
	}
	cancel()
	w.acting.options.Verify = func(ctx context.Context) error { return context.Cause(ctx) }
	if err := w.acting.ForRules().Do(ctx, w.about(1), actions); !errors.Is(err, context.Canceled) ||
		errors.Is(err, dispatch.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
}
