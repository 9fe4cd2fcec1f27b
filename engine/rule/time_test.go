package rule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

// aMoment is a Lookup that decodes everything, at one time.
type aMoment struct {
	expr.Cache
	now time.Time
}

func (m aMoment) Tree(o *object.Object) any {
	if o == nil {
		return nil
	}
	everything := new(object.Paths)
	everything.Add()
	return o.Decode(everything)
}

func (m aMoment) Old(o *object.Object) any { return m.Tree(o) }
func (m aMoment) Now() time.Time           { return m.now }

func program(t *testing.T, text string, scope expr.Scope) *expr.Program {
	t.Helper()
	p, err := expr.Compile(text, expr.Options{Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func lease(t *testing.T, phase string, due time.Time) *object.Object {
	t.Helper()
	text := ""
	if !due.IsZero() {
		text = due.Format(time.RFC3339)
	}
	o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"phase":%q,"due":%q}`, phase, text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestMemberInTime(t *testing.T) {
	waits := rule.Rule{Where: program(t, `object.phase == "in"`, expr.Where), For: time.Hour, Events: delta.All}
	due := rule.Rule{
		Where: program(t, `object.phase == "in"`, expr.Where),
		Due:   program(t, `object.due == "" ? nil : time(object.due)`, expr.Due), Events: delta.All,
	}
	var never time.Time
	in, out := lease(t, "in", never), lease(t, "out", never)
	past, future, later := lease(t, "in", after(-time.Hour)), lease(t, "in", after(time.Hour)), lease(t, "in", after(2*time.Hour))
	for _, test := range []struct {
		why      string
		rule     rule.Rule
		delta    delta.Delta
		progress rule.Progress
		want     string // "" for none
		next     time.Time
	}{
		{"new: it waits from now on", waits, delta.Delta{Type: delta.Added, Object: in}, rule.Progress{}, "", noon},
		{"there at first sight: it waits from now on", waits, delta.Delta{Type: delta.Synced, Object: in}, rule.Progress{}, "", noon},
		{"new and outside", waits, delta.Delta{Type: delta.Added, Object: out}, rule.Progress{}, "", never},
		{"it changes while it waits", waits, delta.Delta{Type: delta.Updated, Object: in, Old: in}, rule.Progress{Mark: after(-time.Minute)}, "", after(-time.Minute)},
		{"it changes after its time, before the tick", waits, delta.Delta{Type: delta.Updated, Object: in, Old: in}, rule.Progress{Mark: after(-2 * time.Hour)}, "", after(-2 * time.Hour)},
		{"it may have left meanwhile", waits, delta.Delta{Type: delta.Updated, Object: in, Old: in}, rule.Progress{Mark: after(-time.Minute), Gap: true}, "", noon},
		{"a member that may have left meanwhile", waits, delta.Delta{Type: delta.Updated, Object: in, Old: in}, rule.Progress{Gap: true}, "updated", never},
		{"it leaves while it waits", waits, delta.Delta{Type: delta.Updated, Object: out, Old: in}, rule.Progress{Mark: after(-time.Minute)}, "", never},
		{"it comes", waits, delta.Delta{Type: delta.Updated, Object: in, Old: out}, rule.Progress{}, "", noon},
		{"a member leaves", waits, delta.Delta{Type: delta.Updated, Object: out, Old: in}, rule.Progress{}, "deleted", never},
		{"a member changes", waits, delta.Delta{Type: delta.Updated, Object: in, Old: in}, rule.Progress{}, "updated", never},
		{"it goes while it waits", waits, delta.Delta{Type: delta.Deleted, Object: in, Old: in}, rule.Progress{Mark: noon}, "", never},
		{"a member goes", waits, delta.Delta{Type: delta.Deleted, Object: in, Old: in}, rule.Progress{}, "deleted", never},
		{"a member goes, its last state outside", waits, delta.Delta{Type: delta.Deleted, Object: out, Old: in}, rule.Progress{}, "deleted", never},
		{"a resync while it waits", waits, delta.Delta{Type: delta.Synced, Object: in, Round: 7}, rule.Progress{Mark: after(-time.Minute), IsKnown: true}, "", after(-time.Minute)},
		{"a resync of a member", waits, delta.Delta{Type: delta.Synced, Object: in, Round: 7}, rule.Progress{IsKnown: true}, "synced", never},

		{"due already", due, delta.Delta{Type: delta.Synced, Object: past}, rule.Progress{}, "synced", never},
		{"due later", due, delta.Delta{Type: delta.Added, Object: future}, rule.Progress{}, "", after(time.Hour)},
		{"never due", due, delta.Delta{Type: delta.Added, Object: in}, rule.Progress{}, "", never},
		{"due moves while it waits", due, delta.Delta{Type: delta.Updated, Object: later, Old: future}, rule.Progress{Mark: after(time.Hour)}, "", after(2 * time.Hour)},
		{"due moves into the past", due, delta.Delta{Type: delta.Updated, Object: past, Old: future}, rule.Progress{Mark: after(time.Hour)}, "added", never},
		{"due of a member moves into the future", due, delta.Delta{Type: delta.Updated, Object: future, Old: past}, rule.Progress{}, "deleted", after(time.Hour)},
		{"due of a member is gone", due, delta.Delta{Type: delta.Updated, Object: in, Old: past}, rule.Progress{}, "deleted", never},
		{"a member changes, and its clock was set back", due, delta.Delta{Type: delta.Updated, Object: future, Old: future}, rule.Progress{}, "updated", never},
	} {
		t.Run(test.why, func(t *testing.T) {
			m, ok, next, err := test.rule.MemberInTime(test.delta, test.progress, aMoment{now: noon})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if ok {
				got = m.Delta.Type.String()
			}
			if got != test.want || !next.Equal(test.next) {
				t.Errorf("%q, and then %s; want %q, and then %s", got, next, test.want, test.next)
			}
		})
	}
}

func TestElapse(t *testing.T) {
	waits := rule.Rule{Where: program(t, `object.phase == "in"`, expr.Where), For: time.Hour, Events: delta.All}
	for _, test := range []struct {
		why    string
		object *object.Object
		mark   time.Time
		added  bool
		next   time.Time
	}{
		{"a moment before", lease(t, "in", time.Time{}), after(-time.Hour + 1), false, after(-time.Hour + 1)},
		{"in time", lease(t, "in", time.Time{}), after(-time.Hour), true, time.Time{}},
		{"outside", lease(t, "out", time.Time{}), after(-time.Hour), false, time.Time{}},
	} {
		_, ok, next, err := waits.Elapse(delta.Delta{Type: delta.Synced, Object: test.object}, test.mark, aMoment{now: noon})
		if err != nil || ok != test.added || !next.Equal(test.next) {
			t.Errorf("%s: %t, and then %s (%v); want %t, and then %s", test.why, ok, next, err, test.added, test.next)
		}
	}
}
