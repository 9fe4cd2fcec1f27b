package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/plugins/handler"
)

// idsOf returns the ids that a handler got, without repeats, and reports different events with one id.
func idsOf(t *testing.T, h *teller) []string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	sorted := slices.Sorted(slices.Values(h.ids))
	if once := slices.Compact(slices.Clone(sorted)); len(once) != len(sorted) {
		t.Errorf("different events have the same id: %v", h.ids)
	}
	return slices.Clone(h.ids)
}

// Different events have different ids, however often reloads and restarts take an object out and in
// that does not change.
func TestIDsOfTogglingRules(t *testing.T) {
	t.Parallel()
	where := func(size string) string { return fmt.Sprintf(`, where: object.data.size == "%s"`, size) }
	source := func(namespace string) string {
		return strings.Replace(mapSource, "v1/configmaps", "v1/configmaps, namespaces: ["+namespace+"]", 1)
	}
	in := mapSource + aRule("r", where("1"))
	for name, toggle := range map[string][]string{
		"where":      {in, mapSource + aRule("r", where("2"))},
		"inside":     {in, mapSource + aRule("r", `, where: object.data.size != "2"`)},
		"selection":  {source("shop") + aRule("r", ""), source("elsewhere") + aRule("r", "")},
		"re-created": {in, mapSource + aRule("other", where("2"))},
		"renamed":    {in, mapSource + aRule("s", where("2")+", formerly: r"), mapSource + aRule("r", where("1")+", formerly: s")},
	} {
		for _, how := range []string{"reload", "restart", "reload without a state"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				l, h := newLife(t), new(teller)
				l.keepsNothing = strings.Contains(how, "without")
				l.put("a", "1")
				e, stop := l.startWith(toggle[0], h)
				l.quiet(e)
				for n := range 8 {
					next := toggle[(n+1)%len(toggle)]
					if how == "restart" {
						stop()
						e, stop = l.startWith(next, h)
					} else if _, err := l.reload(e, next, h); err != nil {
						t.Fatal(err)
					}
					l.quiet(e)
				}
				stop()
				if ids := idsOf(t, h); len(ids) < 4 {
					t.Errorf("only %v were told", ids)
				}
			})
		}
	}
}

// A deletion that a change of the object causes is another event than one that a reload has caused.
func TestIDsOfAnObjectThatReturned(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	in, out := mapSource+aRule("r", small), mapSource+aRule("r", `, where: object.data.size == "7"`)
	e, stop := l.startWith(in, h)
	for _, next := range []string{out, in} {
		l.quiet(e)
		if _, err := l.reload(e, next, h); err != nil {
			t.Fatal(err)
		}
	}
	l.quiet(e)
	l.put("a", "9")
	l.holds("it is deleted", func() bool { told, _ := h.inOrder(); return len(told) == 4 })
	for range 3 { // in one second
		if _, err := e.Resync(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
	}
	l.quiet(e)
	stop()
	idsOf(t, h)
}

// Each resync has ids of its own, also within a second and over a restart.
func TestIDsOfResyncs(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	for range 2 {
		e, stop := l.startWith(mapSource+aRule("r", ""), h)
		l.quiet(e)
		for range 3 {
			if n, err := e.Resync(t.Context(), "r"); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			l.quiet(e)
		}
		stop()
		l.ahead.Store(-3e9) // the clock is set back
	}
	if ids := idsOf(t, h); len(ids) != 7 {
		t.Error(ids)
	}
}

// The difference that a reload makes has the same ids if it is computed again after a crash.
func TestIDsAfterACrash(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "2")
	h := &teller{answer: func(ev handler.Event) error { return nil }}
	before, after := mapSource+aRule("r", `, where: object.data.size != "2"`), mapSource+aRule("r", `, where: object.data.size != "3"`)
	e, stop := l.startWith(before, h)
	l.quiet(e)
	h.mu.Lock()
	h.answer, h.ids = func(handler.Event) error { return errors.New("later") }, nil
	h.mu.Unlock()
	if _, err := l.reload(e, after, h); err != nil {
		t.Fatal(err)
	}
	l.holds("both are told", func() bool { _, ids := h.inOrder(); return len(ids) >= 2 })
	e.rule("r").Memory.Know(e.work().Intakes[0].ID, `object.data.size != "2"`) // as if not learned
	end := e.begin()
	e.rule("r").Memory.Loaded()
	end()
	_, ids := h.inOrder()
	first := slices.Compact(slices.Sorted(slices.Values(ids)))
	stop()
	again := new(teller)
	e, stop = l.startWith(after, again)
	l.quiet(e)
	stop()
	_, ids = again.inOrder()
	if got := slices.Compact(slices.Sorted(slices.Values(ids))); !slices.Equal(first, got) {
		t.Errorf("%v, then %v", first, got)
	}
}
