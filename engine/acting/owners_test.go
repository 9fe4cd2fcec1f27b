package acting

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/plugins/handler"
)

// prunes makes the rule one that prunes. isWhole says that its table has everything.
func (w *world) prunes(isWhole bool) {
	w.rule.Prune = []schema.GroupVersionResource{secrets}
	w.rule.Actions.Prune = true
	w.rule.Preparer.Recipe = &prepare.Recipe{Rule: w.rule.Rule}
	if isWhole {
		w.acting.options.Targets.SetWhole(w.rule.ID, w.rule.Preparer.Whole())
	}
}

// wish makes an attempt for a source object that asks for x in some namespaces.
func (w *world) wish(name string, version int, namespaces ...string) error {
	ev := w.about(version)
	ev.ID, ev.Name = fmt.Sprint("r/", name, "/updated/", version), name
	_, err := w.acting.ForRules().Perform(w.t.Context(), dispatch.Performance{
		Key: delta.Key{Namespace: "shop", Name: name}, Event: ev,
		Acts: &delivery.Acts{Prunes: true, Digest: 1, Pieces: []delivery.Piece{
			copies(fmt.Sprint(version), namespaces...),
			{Actions: []handler.Action{action.Prune(secrets, "by="+name)}},
		}},
		Stop: func() bool { return w.stop },
	})
	return err
}

// The first source object that asks for a target has it, until it asks no more. Then the next one
// has it, and nothing is deleted in between. The same after a restart at any point.
func TestOwners(t *testing.T) {
	for restarts := range 5 {
		t.Run(fmt.Sprint("restart ", restarts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.prunes(true)
				at := func(point int) {
					if point == restarts {
						w.start()
						w.prunes(false)
					}
				}
				at(0)
				if err := w.wish("a", 1, "n1", "n2"); err != nil {
					t.Fatal(err)
				}
				equal(t, "the first", w.take(), []string{"apply n1/x=1", "apply n2/x=1"})
				at(1)
				err := w.wish("b", 2, "n1", "n3")
				if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "secrets n1/x") ||
					!strings.Contains(err.Error(), "for v1/configmaps shop/a, ") {
					t.Fatal(err)
				}
				equal(t, "the second", w.take(), []string{"apply n3/x=2"})
				at(2)
				if err := w.wish("a", 3, "n2"); err != nil {
					t.Fatal(err)
				}
				equal(t, "the first, which asks for less", w.take(), []string{"apply n2/x=3"})
				equal(t, "heirs", w.heirs, []string{"shop/b"})
				at(3)
				if err := w.wish("b", 4, "n1"); err != nil {
					t.Fatal(err)
				}
				equal(t, "the heir", w.take(), []string{"apply n1/x=4", "delete n3/x="})
				if err := w.wish("a", 5); err != nil {
					t.Fatal(err)
				}
				equal(t, "the first, which asks for nothing", w.take(), []string{"delete n2/x="})
			})
		})
	}
}

// While the table may lack something, a prune also goes by labels. It leaves what has another owner
// by now, whatever its labels say.
func TestPruneByLabelsLeavesHeirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prunes(false)
		w.holds["n1/x"], w.holds["old/x"] = "0", "0" // from an informd before
		if err := w.wish("a", 1, "n1"); err != nil {
			t.Fatal(err)
		}
		if err := w.wish("b", 2, "n1"); !errors.Is(err, handler.ErrReject) {
			t.Fatal(err)
		}
		equal(t, "pruned", w.pruned, []string{"old/x"})
		if err := w.wish("a", 3); err != nil {
			t.Fatal(err)
		}
		equal(t, "pruned", w.pruned, []string{"old/x"})
		if slices.Contains(w.take(), "delete n1/x=") || w.holds["n1/x"] != "1" {
			t.Error("what the other one has is deleted")
		}
	})
}

// Behind an owner that does not have the target yet, informd looks again for some minutes. If the
// owner's own change fails for good, it never gets as far: then the second one is refused.
func TestBehindAnOwnerThatIsNotTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prunes(true)
		first := targets.Asker{Rule: w.rule.ID, Key: delta.Key{Namespace: "shop", Name: "first"}}
		wave := w.acting.options.Targets.Begin(first, 1)
		wave.Ask(targets.Target{Resource: secrets, Key: delta.Key{Namespace: "n1", Name: "x"}}, true)
		wave.Asked(true)
		for attempt, isFinal := range map[int]bool{1: false, maxBehind: false, maxBehind + 1: true} {
			ev := w.about(1)
			ev.Attempt = attempt
			_, err := w.acting.ForRules().Perform(t.Context(), dispatch.Performance{
				Key: w.key(), Event: ev, Stop: func() bool { return false },
				Acts: &delivery.Acts{Prunes: true, Digest: 1, Pieces: []delivery.Piece{copies("1", "n1")}},
			})
			if err == nil || errors.Is(err, handler.ErrReject) != isFinal ||
				!strings.Contains(err.Error(), "v1/configmaps shop/first") {
				t.Errorf("attempt %d: %v", attempt, err)
			}
		}
	})
}

// The table and the actions have one word for what is somebody else's.
func TestCauseForeign(t *testing.T) {
	if targets.CauseForeign != string(action.CauseForeign) {
		t.Errorf("%q is not %q", targets.CauseForeign, action.CauseForeign)
	}
}
