package rounds

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/timing"
)

// at is a time of a day.
func at(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }

// running is a rule at work.
type running struct {
	*plan.Rule
	holds   map[string]bool // names of objects
	hasLeft bool
	isGone  bool
}

func newRunning(t *testing.T, name, cron string) *running {
	t.Helper()
	r := &running{
		Rule: &plan.Rule{
			Rule:   rule.Rule{Name: name},
			Source: &plan.Source{Name: "maps", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}},
		},
		holds: make(map[string]bool),
	}
	if cron != "" {
		schedule, err := timing.NewSchedule([]string{cron}, "")
		if err != nil {
			t.Fatal(err)
		}
		r.Rounds = schedule
	}
	return r
}

func (r *running) Plan() *plan.Rule        { return r.Rule }
func (r *running) ID() string              { return r.Name }
func (r *running) HasEnded() bool          { return r.isGone }
func (r *running) HasLeft() bool           { return r.hasLeft }
func (r *running) Holds(of delta.Key) bool { return r.holds[of.Name] }

// notes are the notes of a state, by rule and name.
type notes struct {
	t       *testing.T
	all     map[string]string
	isBegun bool
}

func (n *notes) Begin() { n.set(true) }
func (n *notes) End()   { n.set(false) }

func (n *notes) set(isBegun bool) {
	if n.isBegun == isBegun {
		n.t.Error("a cut within a cut, or an end without one")
	}
	n.isBegun = isBegun
}

func (n *notes) PutNote(note records.Note) { n.put(note.Rule+": "+note.Name, string(note.Value)) }

func (n *notes) DeleteNote(rule, name string) { n.put(rule+": "+name, "") }

func (n *notes) put(id, value string) {
	if !n.isBegun {
		n.t.Errorf("%s is noted outside of a cut", id)
	}
	if n.all[id] = value; value == "" {
		delete(n.all, id)
	}
}

func (n *notes) saved(rule, name string) (value []byte, ok bool) {
	text, ok := n.all[rule+": "+name]
	return []byte(text), ok
}

func (n *notes) expect(want map[string]string) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.all); diff != "" {
		n.t.Errorf("noted (-want +got)\n%s", diff)
	}
}

// A round is noted when it begins and when it is over, and not for rules that are gone, see no
// rounds, or have had it.
func TestRoundsAreNoted(t *testing.T) {
	t.Parallel()
	n := &notes{t: t, all: make(map[string]string)}
	a, gone, other := newRunning(t, "a", "0 8 * * *"), newRunning(t, "gone", ""), newRunning(t, "other", "")
	gone.Rounds, gone.isGone = a.Rounds, true
	r := New(Informer{ID: "i", Notes: n, Now: func() time.Time { return at(7, 0) }}, []Rule{a, gone, other})
	r.Begin(nil)
	n.expect(map[string]string{"a: round i": `{"number":1772348400,"over":true,"table":"0 8 * * *\n"}`})
	r.Round(a.Rounds, at(8, 0).Unix(), false)
	n.expect(map[string]string{"a: round i": `{"number":1772352000,"over":false,"table":"0 8 * * *\n"}`})
	r.Round(a.Rounds, at(8, 0).Unix(), true)
	want := map[string]string{"a: round i": `{"number":1772352000,"over":true,"table":"0 8 * * *\n"}`}
	n.expect(want)
	New(Informer{ID: "i", Notes: n, Now: func() time.Time { return at(9, 0) }}, []Rule{a}).Begin(r)
	n.expect(want) // it goes on
	if len(r.Timetables()) != 2 {
		t.Errorf("timetables: %v", r.Timetables())
	}
}

// A round that was not over comes once more, one that was over does not, and a rule that was renamed
// goes on.
func TestRestore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		isOver     bool
		done, want int64
	}{
		{"over", true, at(8, 0).Unix(), at(8, 0).Unix()},
		{"begun", false, at(8, 0).Unix() - 1, at(8, 0).Unix()},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newRunning(t, "a", "0 8 * * *")
			a.Former = "was"
			n := &notes{t: t, all: make(map[string]string)}
			of := Informer{
				ID: "alone a", FormerID: func(rule string) string { return "alone " + rule }, Notes: n,
				Now: func() time.Time { return at(9, 0) },
			}
			old := of
			old.ID = "alone was"
			New(old, []Rule{a}).Round(a.Rounds, at(8, 0).Unix(), test.isOver)
			of.Moments = NewMoments(of.Now)
			r := New(of, []Rule{a})
			r.Restore(n.saved, func(table timing.Timetable, number int64, isOver bool) {
				if table != a.Rounds || number != test.want || isOver != test.isOver {
					t.Errorf("goes on after %d of %s, over: %t", number, table, isOver)
				}
			})
			if got := r.Done(0); got != test.done {
				t.Errorf("done until %d, want %d", got, test.done)
			}
			if len(n.all) != 1 || !strings.Contains(n.all["a: round alone a"], `"number":1772352000`) {
				t.Errorf("noted %q", n.all)
			}
			if got, want := of.Moments.Due(), map[bool]int{true: 0, false: 1}[test.isOver]; got != want {
				t.Errorf("%d moments are due, want %d", got, want)
			}
		})
	}
}

// A later moment waits for the objects of an earlier one, a second longer than they are held, and at
// most maxHeld.
func TestMomentsWait(t *testing.T) {
	t.Parallel()
	now := at(9, 0)
	m := NewMoments(func() time.Time { return now })
	down, up := newRunning(t, "down", "0 19 * * *"), newRunning(t, "up", "0 7 * * *")
	down.holds["a"], down.holds["stuck"], down.hasLeft = true, true, true
	m.add(down, "i", "", 1, false)
	m.add(up, "i", "", 2, true)
	m.begins("i", up.Rounds, 2)
	expect := func(key string, want bool) {
		t.Helper()
		if got := m.holds("i", up.Rounds, key); got != want {
			t.Errorf("at %s %s is held: %t, want %t", now, key, got, want)
		}
	}
	expect("shop/a", true)
	expect("shop/stuck", true)
	delete(down.holds, "a")
	expect("shop/a", true)
	now = now.Add(stillness)
	expect("shop/a", false)
	expect("shop/stuck", true)
	now = at(9, 0).Add(maxHeld)
	expect("shop/stuck", false)
	m.handed("i", up.Rounds)
	if m.over("i", up.Rounds); m.Due() != 0 {
		t.Error("the moment is over")
	}
	(*Moments)(nil).begins("i", up.Rounds, 3)
	(*Moments)(nil).over("i", up.Rounds)
	(*Moments)(nil).handed("i", up.Rounds)
	if (*Moments)(nil).holds("i", up.Rounds, "a") {
		t.Error("no moments hold nothing")
	}
}
