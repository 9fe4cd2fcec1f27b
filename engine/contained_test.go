package engine

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
)

// The informer counts a step as taken even if code panics that evaluates or commits it. So the step
// is recorded, and the state can be written.
func TestStepIsRecordedDespitePanics(t *testing.T) {
	t.Parallel()
	for name, sabotage := range map[string]func(*intake.Intake){
		"in the evaluation": func(in *intake.Intake) {
			in.Rules[0] = nil
		},
		"in a lane": func(in *intake.Intake) { in.Rules[0].Lane = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := state.Open(t.TempDir(), state.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			logger := slog.New(slog.NewTextHandler(&log, nil))
			e, _, in := idleWith(t, mapSource+aRule("all", ""), Options{State: store, Logger: logger})
			if _, err := in.Saved(); err != nil {
				t.Fatal(err)
			}
			sabotage(in)
			a := configMap(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a","uid":"1","resourceVersion":"7"}}`)
			func() {
				defer func() { recover() }() // as the informer does
				in.Take(source.Step{Delta: delta.Delta{Type: delta.Added, Object: a}, Moved: true, Position: "7"})
			}()
			if name == "in a lane" && (!strings.Contains(log.String(), "has panicked while it queued an event") ||
				!strings.Contains(log.String(), "key=shop/a") || strings.Contains(log.String(), "an expression failed")) {
				t.Errorf("logged %s", log.String())
			}
			want := 2 // the object and the position
			if name == "in a lane" {
				want++ // the dead letter, because the event is not lost
				letters := e.dead.List()
				if len(letters) != 1 || letters[0].ID != "all/1/added/7" || !letters[0].Plain ||
					!strings.Contains(letters[0].Reason, "panicked") || !strings.Contains(log.String(), "id=all/1/added/7") {
					t.Errorf("dead letters %+v, and logged %s", letters, log.String())
				}
			}
			if n := store.Status().Unwritten; n != want {
				t.Errorf("%d records, want %d", n, want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := store.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if n := store.Status().Unwritten; n != 0 {
				t.Errorf("%d records cannot be written", n)
			}
		})
	}
}
