package targets

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// rows are the notes of all rules.
type rows map[records.NoteID][]byte

func (r rows) PutNote(n records.Note)       { r[records.NoteID{Rule: n.Rule, Name: n.Name}] = n.Value }
func (r rows) DeleteNote(rule, name string) { delete(r, records.NoteID{Rule: rule, Name: name}) }
func (r rows) all(yield func(records.Note) bool) {
	for id, value := range maps.Clone(r) {
		if !yield(records.Note{Rule: id.Rule, Name: id.Name, Value: value}) {
			return
		}
	}
}

// ask has a source object ask for some targets.
func ask(t *Table, a Asker, event uint64, owns bool, all ...Target) *Wave {
	w := t.Begin(a, event)
	for _, at := range all {
		w.Ask(at, owns)
	}
	w.Asked(owns)
	return w
}

// attempt tries a target, and settles it if it may.
func attempt(w *Wave, at Target, o Outcome) Verdict {
	a, v := tryOne(w, at, noon)
	if v == Try {
		a.Settle(o, noon)
	}
	return v
}

func states(t *Table, a Asker) string {
	var all []string
	for _, c := range t.Of(a) {
		all = append(all, c.Target.Key.String()+" "+c.State.String())
	}
	return strings.Join(all, ", ")
}

var (
	one, two = everyPlace[0], everyPlace[1]
	pa, pb   = everyAsker[0], everyAsker[1]
	qa, na   = everyAsker[2], everyAsker[3]
)

// One target that fails does not delay others: a newer event goes to those, and to this one when it
// is due.
func TestBackoffIsPerTarget(t *testing.T) {
	t.Parallel()
	table := New(nil)
	w := ask(table, pa, 1, true, one, two)
	attempt(w, one, Outcome{State: Done})
	attempt(w, two, Outcome{State: Waits, Cause: "quota", Reason: "exceeded quota"})
	left := w.Left(noon)
	wait := left.Due.Sub(noon)
	if left.Asked != 2 || left.Waits != 1 || left.Untried+left.Refused != 0 || len(left.Some) != 1 ||
		left.Some[0].Cause != "quota" || wait < 800*time.Millisecond || wait > 1100*time.Millisecond {
		t.Errorf("left after the first wave: %+v", left)
	}
	again := ask(table, pa, 1, true, one, two)
	if v := attempt(again, one, Outcome{State: Done}); v != Skip {
		t.Errorf("a retry does what is done: %v", v)
	}
	newer := ask(table, pa, 2, true, one, two)
	if v := attempt(newer, one, Outcome{State: Done}); v != Try {
		t.Errorf("a newer event does not go to what is well: %v", v)
	}
	if v := attempt(newer, two, Outcome{State: Done}); v != Wait {
		t.Errorf("a newer event does not wait: %v", v)
	}
	a, v := newer.Try(two, left.Due)
	if v != Try || a.Claim.Failures != 1 {
		t.Errorf("it is not tried when it is due: %v %v", v, a.Claim)
	}
	a.Settle(Outcome{State: Done}, left.Due)
	if left := newer.Left(noon); left.Waits+left.Untried+left.Refused != 0 {
		t.Errorf("left in the end: %+v", left)
	}
}

func TestDelays(t *testing.T) {
	t.Parallel()
	for n, most := range []time.Duration{1: time.Second, 2: 2 * time.Second, 9: 256 * time.Second, 10: maxDelay, 1000: maxDelay} {
		if got := delay(pa, n); most > 0 && (got > most || got < most*4/5) {
			t.Errorf("after %d failures: %v", n, got)
		}
	}
	wait := 8 * time.Second
	for _, now := range []time.Time{noon, noon.Add(time.Millisecond), noon.Add(499 * time.Millisecond)} {
		due := dueAfter(now, wait)
		if got := due.Sub(now); got < wait || got > wait+wait/16 || due.Sub(noon)%(wait/16) != 0 {
			t.Errorf("due after %v", got)
		}
	}
}

// The second asker of a target is refused, and has it once the first asks no more.
func TestHandover(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	first := ask(table, pa, 1, true, one)
	attempt(first, one, Outcome{State: Done})
	second := ask(table, qa, 2, true, one)
	if a, v := second.Try(one, noon); v != Refuse || a.Claim.Asker != pa {
		t.Errorf("the second one: %v %v", v, a)
	}
	if left := second.Left(noon); left.Refused != 1 || left.Some[0].State != Behind {
		t.Errorf("left for the second one: %+v", left)
	}
	beside := ask(table, na, 3, false, one)
	if v := attempt(beside, one, Outcome{State: Done}); v != Try {
		t.Errorf("who does not own is refused: %v", v)
	}
	dropped, heirs, _ := table.Begin(pa, 4).Asked(true)
	if len(dropped) != 0 || len(heirs) != 1 || heirs[0].Asker != qa || heirs[0].Former != pa {
		t.Errorf("dropped %v; heirs are %v", dropped, heirs)
	}
	if keys := table.Pending("q"); !slices.Equal(keys, []delta.Key{qa.Key}) {
		t.Errorf("pending: %v", keys)
	}
	again := ask(table, qa, 5, true, one)
	attempt(again, one, Outcome{State: Done})
	if c, _ := table.Owner(one); c.Asker != qa || c.State != Done || c.Former != (Asker{}) {
		t.Errorf("the owner is %+v", c)
	}
	table.Forget(na)
	if len(r) != 1 {
		t.Errorf("rows: %v", r)
	}
}

// A claim that is made while its target is being deleted waits until the deletion has ended.
func TestDeletionUnderWay(t *testing.T) {
	t.Parallel()
	table := New(nil)
	attempt(ask(table, pa, 1, true, one), one, Outcome{State: Done})
	w := ask(table, pa, 2, true)
	deletion, v := w.TryDropped(one, noon)
	if v != Try || deletion.Claim.State != Dropped {
		t.Fatalf("deletion: %v %v", v, deletion.Claim)
	}
	other := ask(table, pb, 3, true, one)
	if v := attempt(other, one, Outcome{State: Done}); v != Wait {
		t.Errorf("a claim does not wait for a deletion: %v", v)
	}
	if left := other.Left(noon); left.Waits != 1 || left.Due != noon.Add(minDelay) {
		t.Errorf("left: %+v", left)
	}
	if next := deletion.Settle(Outcome{State: Done}, noon); next == nil || next.Asker != pb || next.Former != (Asker{}) {
		t.Errorf("next: %v", next)
	}
	if v := attempt(other, one, Outcome{State: Done}); v != Try {
		t.Errorf("after the deletion: %v", v)
	}
	// The owner asks again while its deletion is under way.
	deletion, _ = ask(table, pb, 4, true).TryDropped(one, noon)
	ask(table, pb, 5, true, one)
	if next := deletion.Settle(Outcome{State: Done}, noon); next == nil || next.State != Asked {
		t.Errorf("next: %v", next)
	}
}

// A claim that was asked for while an apply of the former owner is under way has the target after
// it, without a deletion.
func TestApplyUnderWay(t *testing.T) {
	t.Parallel()
	table := New(nil)
	apply, _ := ask(table, pa, 1, true, one).Try(one, noon)
	ask(table, pa, 2, true)
	b := ask(table, pb, 3, true, one)
	next := apply.Settle(Outcome{State: Done}, noon)
	if next == nil || next.Asker != pb || next.Former != pa || states(table, pa) != "" {
		t.Errorf("next is %v; the former owner has %s", next, states(table, pa))
	}
	if v := attempt(b, one, Outcome{State: Done}); v != Try {
		t.Error(v)
	}
}

// Without a deletion under way, who asks has a dropped target at once.
func TestDroppedIsTakenOver(t *testing.T) {
	t.Parallel()
	table := New(make(rows))
	attempt(ask(table, pa, 1, true, one), one, Outcome{State: Done})
	w := ask(table, pa, 2, true)
	if v := attempt(w, one, Outcome{State: Waits}); v != Try {
		t.Fatal(v)
	}
	if left := w.Left(noon); left.Waits != 1 || left.Some[0].State != Dropped {
		t.Errorf("left: %+v", left)
	}
	b := table.Begin(pb, 3)
	b.Ask(one, true)
	if _, _, isNew := b.Asked(true); !isNew {
		t.Error("the takeover need not be on disk")
	}
	if a, v := b.Try(one, noon); v != Try || a.Claim.Former != pa {
		t.Errorf("%v %v", v, a.Claim)
	}
	if got := states(table, pa); got != "" {
		t.Errorf("the former owner has %s", got)
	}
}

// An owner that was refused what is somebody else's has not applied it: the next one does not take it
// for its own, and nothing is to be deleted.
func TestForeignTargetIsNotHandedOver(t *testing.T) {
	t.Parallel()
	for _, state := range []State{Waits, Refused} {
		r := make(rows)
		table := New(r)
		attempt(ask(table, pa, 1, true, one), one, Outcome{State: state, Cause: CauseForeign})
		b := ask(table, pb, 2, true, one)
		if v := attempt(b, one, Outcome{}); v != Refuse {
			t.Fatal(v)
		}
		table = New(r) // the same after a restart
		table.Restore(r.all)
		a := table.Begin(pa, 3)
		dropped, heirs, _ := a.Asked(true)
		if len(dropped) != 0 || len(heirs) != 1 || heirs[0].Former != (Asker{}) {
			t.Errorf("%v: dropped %v, heirs %+v", state, dropped, heirs)
		}
		attempt(ask(table, pb, 4, true, one), one, Outcome{State: state, Cause: CauseForeign})
		b = table.Begin(pb, 5)
		if dropped, _, _ := b.Asked(true); len(dropped) != 1 { // its marks say that it stays
			t.Errorf("%v: dropped %v", state, dropped)
		}
		ask(table, pa, 6, true, one)
		if c := table.Of(pa); len(c) != 1 || c[0].State != Asked || c[0].Former != (Asker{}) {
			t.Errorf("%v: who takes it over has %+v", state, c)
		}
	}
}

// While a wave asks, a look at the cluster may find that the target is the source object's. The wave
// goes on with the same claim.
func TestPutWhileAWaveAsks(t *testing.T) {
	t.Parallel()
	table := New(make(rows))
	ask(table, pa, 1, true, one)
	b := table.Begin(pb, 2)
	b.Ask(one, true)
	if !table.Put(pb, one, true) {
		t.Fatal("no room")
	}
	if dropped, heirs, _ := b.Asked(true); len(dropped)+len(heirs) != 0 {
		t.Errorf("dropped %v, heirs %v", dropped, heirs)
	}
	if v := attempt(b, one, Outcome{State: Done}); v != Try || states(table, pa) != "x/1 behind" {
		t.Errorf("%v; the other one has %s", v, states(table, pa))
	}
}

// What is dropped may be another one's when its deletion comes.
func TestDroppedThatAnotherOneHas(t *testing.T) {
	t.Parallel()
	table := New(make(rows))
	attempt(ask(table, pa, 1, true, one), one, Outcome{State: Done})
	a := ask(table, pa, 2, true)
	ask(table, pb, 3, true, one)
	if _, v := a.TryDropped(one, noon); v != Skip {
		t.Error(v)
	}
	if left := a.Left(noon); left.Waits+left.Untried+left.Refused != 0 {
		t.Errorf("left: %+v", left)
	}
}

// A second walk asks for everything again. What it does to a target beyond the first walk is not
// skipped because the wave has done the rest, nor in a later wave.
func TestSecondWalk(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 1, 2} {
		r := make(rows)
		table := New(r)
		known := make([]Target, first)
		for i := range known {
			known[i] = one
		}
		w := ask(table, na, 1, false, append(known, two)...)
		attempt(w, two, Outcome{State: Refused}) // from now on, what is done is recorded
		for n := range 3 {
			w.Ask(one, false)
			if v := attempt(w, one, Outcome{State: Done}); v != Try {
				t.Errorf("%d times in the first walk: number %d of the second walk: %v", first, n, v)
			}
			w.Ask(two, false)
		}
		for range 4 {
			if v := attempt(w, one, Outcome{State: Done}); v != Skip {
				t.Errorf("%d times in the first walk: in the end: %v", first, v)
			}
		}
		again := ask(table, na, 1, false, one, one, one, two)
		if v := attempt(again, one, Outcome{State: Done}); v != Skip {
			t.Errorf("%d times in the first walk: the next wave: %v", first, v)
		}
		again.Ask(one, false)
		again.Ask(one, false)
		again.Ask(one, false)
		again.Ask(one, false)
		if v := attempt(again, one, Outcome{State: Waits}); v != Try {
			t.Errorf("%d times in the first walk: the next wave asks for more: %v", first, v)
		}
		more := ask(table, na, 1, false, one, one, one, one)
		for n := range 5 {
			a, v := more.Try(one, noon.Add(time.Hour))
			if (v == Try) != (n < 4) {
				t.Errorf("%d times in the first walk: number %d after that: %v", first, n, v)
			}
			if v == Try {
				a.Settle(Outcome{State: Done}, noon)
			}
		}
		restored := New(r)
		restored.Restore(r.all)
		if v := attempt(ask(restored, na, 1, false, one, one), one, Outcome{State: Done}); v != Skip {
			t.Errorf("%d times in the first walk: after a restart: %v", first, v)
		}
	}
}

// A wave that does something to a target twice is done with it after the second time.
func TestTwice(t *testing.T) {
	t.Parallel()
	table := New(nil)
	w := ask(table, pa, 1, true, one, one)
	attempt(w, one, Outcome{State: Done})
	if got := states(table, pa); got != "x/1 asked" {
		t.Error(got)
	}
	if v := attempt(w, one, Outcome{State: Done}); v != Try || states(table, pa) != "x/1 done" {
		t.Errorf("%v: %s", v, states(table, pa))
	}
	w = ask(table, pa, 2, true, one, one)
	attempt(w, one, Outcome{State: Waits})
	if _, v := w.Try(one, noon.Add(time.Hour)); v != Wait {
		t.Errorf("the second is done without the first: %v", v)
	}
}

// Claims that do not own are recorded once one of their wave fails, and go with the delivery.
func TestClaimsThatDoNotOwn(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	w := ask(table, na, 1, false, everyPlace...)
	attempt(w, one, Outcome{State: Done})
	if len(r) != 0 {
		t.Errorf("recorded: %v", r)
	}
	attempt(w, two, Outcome{State: Refused, Cause: "invalid"})
	attempt(w, everyPlace[2], Outcome{State: Done})
	if len(r) != 3 {
		t.Errorf("%d rows", len(r))
	}
	next := New(r)
	next.Restore(r.all)
	w = ask(next, na, 1, false, everyPlace...)
	for i, want := range []Verdict{Skip, Refuse, Skip, Try} {
		if v := attempt(w, everyPlace[i], Outcome{State: Done}); v != want {
			t.Errorf("%v: %v", everyPlace[i], v)
		}
	}
	if next.Forget(na); len(r) != 0 || len(next.Of(na)) != 0 {
		t.Errorf("still recorded: %v", r)
	}
	var many []Target
	for i := range manyTargets + 1 {
		many = append(many, config("x", fmt.Sprint(i)))
	}
	w = ask(next, na, 2, false, many...)
	if attempt(w, many[0], Outcome{State: Done}); len(r) != 1 {
		t.Errorf("%d rows of a long wave", len(r))
	}
}

// A namespace that appears makes due what failed for it, over a restart, too.
func TestAppeared(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	w := ask(table, pa, 1, true, one, everyPlace[2])
	attempt(w, one, Outcome{State: Done, Cause: "terminating"})
	attempt(w, everyPlace[2], Outcome{State: Waits, Cause: "namespace"})
	table = New(r)
	table.Restore(r.all)
	if askers := table.Appeared("z"); len(askers) != 0 {
		t.Errorf("to try: %v", askers)
	}
	for _, namespace := range []string{"x", "y"} {
		if askers := table.Appeared(namespace); !slices.Equal(askers, []Asker{pa}) {
			t.Errorf("to try: %v", askers)
		}
	}
	w = ask(table, pa, 1, true, one, everyPlace[2])
	for _, at := range []Target{one, everyPlace[2]} {
		if v := attempt(w, at, Outcome{State: Done}); v != Try {
			t.Errorf("%v: %v", at, v)
		}
	}
	if len(table.Appeared("x"))+len(table.Appeared("y")) != 0 {
		t.Error("what is well is tried again")
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	table := New(nil)
	attempt(ask(table, pa, 1, true, one), one, Outcome{State: Waits, After: time.Hour})
	if due := table.Of(pa)[0].Due; due.Sub(noon) < maxDelay || due.Sub(noon) > maxDelay+maxDelay/16 {
		t.Errorf("due at %v", due)
	}
	table.Retry(pa)
	table.Retry(pb)
	if v := attempt(ask(table, pa, 1, true, one), one, Outcome{State: Done}); v != Try {
		t.Error(v)
	}
}

// A claim that the cluster tells comes behind, or in front of one that has not been compared.
func TestPut(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	w := ask(table, pa, 1, true, one)
	a, _ := w.Try(one, noon)
	if !table.Put(pb, one, true) || !table.Put(qa, one, false) || !table.Put(pb, one, true) || !table.Put(pb, two, false) {
		t.Error("there is no room")
	}
	if next := a.Settle(Outcome{State: Done}, noon); next != nil {
		t.Errorf("next: %v", next)
	}
	want := "x/1 done, x/2 done|x/1 behind|x/1 behind"
	if got := states(table, pb) + "|" + states(table, pa) + "|" + states(table, qa); got != want {
		t.Error(got)
	}
	table = New(r)
	table.Restore(r.all)
	table.Put(qa, one, true)
	heirs := append(table.DropRule("q"), table.Release("p", func(c Claim) bool { return c.Asker == pb })...)
	if len(heirs) != 2 || heirs[0].Asker != pb || heirs[1].Asker != pa {
		t.Errorf("heirs: %v", heirs)
	}
	if table.Put(pa, config("x", "a/b"), false) {
		t.Error("a target is taken that cannot exist")
	}
}

// Claims that go together are no heirs of each other.
func TestDropRule(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	for i, a := range []Asker{pa, pb, qa} {
		ask(table, a, uint64(i), true, one)
	}
	heirs := table.DropRule("p")
	if len(heirs) != 1 || heirs[0].Asker != qa || heirs[0].Former != pa {
		t.Errorf("heirs: %v", heirs)
	}
	if len(r) != 3 { // the state drops those of the rule
		t.Errorf("rows: %v", r)
	}
	if heirs := table.Release("q", func(Claim) bool { return true }); len(heirs) != 0 || len(r) != 2 {
		t.Errorf("heirs %v, rows %v", heirs, r)
	}
}

// A wave whose claims are released meanwhile is not done.
func TestReleasedInAWave(t *testing.T) {
	t.Parallel()
	table := New(nil)
	w := ask(table, pa, 1, true, one)
	table.Release("p", func(Claim) bool { return true })
	if v := attempt(w, one, Outcome{State: Done}); v != Wait {
		t.Error(v)
	}
	if left := w.Left(noon); left.Waits != 1 || left.Due != noon.Add(minDelay) {
		t.Errorf("left: %+v", left)
	}
}

// What a second walk finds that the first did not is claimed late.
func TestLateAsk(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	attempt(ask(table, pa, 1, true, one), one, Outcome{State: Done})
	w := ask(table, pa, 2, true)
	if w.Ask(one, true) {
		t.Error("a row that is there is new")
	}
	if !w.Ask(two, true) || w.Ask(two, true) || len(r) != 2 {
		t.Errorf("rows: %v", r)
	}
	for _, at := range []Target{one, two, two} {
		if v := attempt(w, at, Outcome{State: Done}); v != Try {
			t.Error(at, v)
		}
	}
	if got := states(table, pa); got != "x/1 done, x/2 done" {
		t.Error(got)
	}
}

// Claims of a large delivery go in several cuts, so that none is long.
func TestThin(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	ask(table, na, 1, false, one, two, everyPlace[2], everyPlace[3])
	w := table.Begin(na, 2)
	w.Ask(two, false)
	for n, want := range []bool{true, true, false} {
		if got := w.Thin(1); got != want {
			t.Errorf("number %d of the wave: %v", n, got)
		}
	}
	if got := states(table, na); got != "x/2 asked, y/2 asked" {
		t.Error(got)
	}
	if w.Asked(false); states(table, na) != "x/2 asked" {
		t.Error(states(table, na))
	}
	w = ask(table, na, 3, false, everyPlace...)
	attempt(w, one, Outcome{State: Done})
	attempt(w, two, Outcome{State: Waits})
	ask(table, na, 3, false, everyPlace...)
	for n, want := range []bool{true, true, false} {
		if got := table.Thin(na, 1+n%2); got != want {
			t.Errorf("number %d of the delivery: %v", n, got)
		}
	}
	if table.Thin(pa, 1) || states(table, na) == "" || len(r) != 0 {
		t.Errorf("%s; rows: %v", states(table, na), r)
	}
	if table.Forget(na); states(table, na) != "" {
		t.Error(states(table, na))
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	table := New(nil)
	table.ledger.counts = [2]int{MaxClaims, MaxClaims}
	w := ask(table, pa, 1, true, one)
	if v := attempt(w, one, Outcome{State: Done}); v != Wait {
		t.Error(v)
	}
	if left := w.Left(noon); left.Asked != 1 || left.Waits != 1 || left.Due != noon.Add(maxDelay) {
		t.Errorf("left: %+v", left)
	}
	if table.Put(pa, one, false) {
		t.Error("there is room")
	}
	table.ledger.counts = [2]int{}
	w = ask(table, pa, 1, true, one)
	attempt(w, one, Outcome{State: Refused, Cause: strings.Repeat("c", 99), Reason: strings.Repeat("é", 999)})
	if c := table.Of(pa)[0]; len(c.Cause) != maxCause || len(c.Reason) != maxReason {
		t.Errorf("%d bytes of cause, %d of reason", len(c.Cause), len(c.Reason))
	}
	for _, bad := range []Target{config("x", ""), config("x/y", "a"), config("x", strings.Repeat("a", 254)), {Key: one.Key}} {
		if bad.CanExist() {
			t.Errorf("%v can exist", bad)
		}
	}
}

// A row that cannot be read makes the rule's table one that is not whole.
func TestRestore(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	table.SetWhole("p", "v1/configmaps")
	table.SetWhole("q", "v1/secrets")
	w := ask(table, pa, 1, true, everyPlace...)
	attempt(w, one, Outcome{State: Waits, Cause: "quota", Reason: "exceeded quota"})
	ask(table, pb, 1, true, one)
	before := slices.SortedFunc(table.Sorted("p"), func(a, b Claim) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	r.PutNote(records.Note{Rule: "p", Name: "count 1"})
	table = New(r)
	table.Restore(r.all)
	after := slices.SortedFunc(table.Sorted("p"), func(a, b Claim) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	if diff := cmp.Diff(before, after); diff != "" || table.Whole("p") != "v1/configmaps" || table.Whole("n") != "" {
		t.Error(diff)
	}
	for id, value := range r {
		if strings.HasPrefix(id.Name, rowPrefix) {
			value[0]++
			break
		}
	}
	r.PutNote(records.Note{Rule: "p", Name: rowPrefix + "a/b", Value: records.AppendClaim(nil, &records.Claim{State: 1})})
	table = New(r)
	table.Restore(r.all)
	if table.Whole("p") != "" || table.Whole("q") != "v1/secrets" || len(r) != 4+2 {
		t.Errorf("whole: %q %q; %d notes", table.Whole("p"), table.Whole("q"), len(r))
	}
}

func TestEventOf(t *testing.T) {
	t.Parallel()
	all := make(map[uint64]bool)
	for range 2 {
		for _, id := range []string{"a", "b"} {
			all[EventOf(id, 1)], all[EventOf(id, 2)] = true, true
		}
	}
	if len(all) != 4 {
		t.Error("events are mistaken for each other, or an event for another one")
	}
}

// Waves of different source objects, and questions, come at the same time.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	table := New(nil)
	var all sync.WaitGroup
	for i, a := range everyAsker {
		all.Go(func() {
			for event := range uint64(50) {
				w := ask(table, a, event, prunes(a), everyPlace[:(int(event)+i)%5]...)
				for _, at := range everyPlace {
					attempt(w, at, Outcome{State: State(event%3) + Done})
				}
				w.Left(noon)
				table.Forget(a)
				table.Retry(a)
				table.Appeared("x")
				for range table.Sorted(a.Rule) {
					table.Owner(one)
				}
				table.Pending(a.Rule)
			}
			ask(table, a, 99, prunes(a))
			for range 2 { // what is deleted, or was handed over
				w := ask(table, a, 100, prunes(a))
				for _, at := range everyPlace {
					attempt(w, at, Outcome{State: Done})
				}
			}
			table.Forget(a)
		})
	}
	all.Wait()
	if l := &table.ledger; len(l.claims)+len(l.places)+len(l.rules) > 0 {
		t.Errorf("still there: %v", l.claims)
	}
}

// Of two that ask for a dropped target, the wave that first gets to Asked has it. What a wave asked
// for that fails before goes again.
func TestTwoAskForADroppedTarget(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	attempt(ask(table, pa, 1, true, one), one, Outcome{State: Done})
	ask(table, pa, 2, true)
	b, q := table.Begin(pb, 3), table.Begin(qa, 4)
	b.Ask(one, true)
	q.Ask(one, true)
	if _, heirs, isNew := q.Asked(true); len(heirs) != 0 || !isNew {
		t.Errorf("heirs are %v", heirs)
	}
	b.Asked(true)
	if c, _ := table.Owner(one); c.Asker != qa || c.Former != pa || states(table, pb) != "x/1 behind" {
		t.Errorf("the owner is %v", c)
	}
	failing := table.Begin(pa, 5)
	failing.Ask(two, true)
	ask(table, qa, 6, true, one, two)
	if heirs := table.Forget(pa); len(heirs) != 1 || heirs[0].Asker != qa || heirs[0].Former != (Asker{}) {
		t.Errorf("heirs are %v", heirs)
	}
	if len(r) != 3 {
		t.Errorf("rows: %v", r)
	}
}

// A claim that begins to own is recorded as such before its target is tried.
func TestBeginsToOwn(t *testing.T) {
	t.Parallel()
	r := make(rows)
	table := New(r)
	attempt(ask(table, pa, 1, false, one), one, Outcome{State: Waits})
	w := table.Begin(pa, 2)
	w.Ask(one, true)
	if _, _, isNew := w.Asked(true); !isNew || len(r) != 1 {
		t.Errorf("it is not new: %v", r)
	}
	table = New(r)
	table.Restore(r.all)
	if c, ok := table.Owner(one); !ok || c.Asker != pa {
		t.Errorf("the owner is %v", c)
	}
}

// A clock that was set back does not have restored claims wait for longer than others.
func TestRestoreWithClockSetBack(t *testing.T) {
	t.Parallel()
	r := make(rows)
	w := ask(New(r), na, 1, false, one, two)
	attempt(w, one, Outcome{State: Waits, Cause: "quota"})
	attempt(w, two, Outcome{State: Done})
	now := noon.Add(-5 * time.Hour)
	table := New(r)
	table.Restore(r.all)
	again := table.Begin(na, 1)
	again.Ask(one, false)
	again.Asked(false)
	if left := again.Left(now); left.Due.After(now.Add(maxDelay)) {
		t.Errorf("it waits until %v, which is %v away", left.Due, left.Due.Sub(now))
	}
	if _, v := again.Try(one, now); v != Wait {
		t.Errorf("it does not wait: %v", v)
	}
	if _, v := again.Try(one, now.Add(maxDelay)); v != Try {
		t.Errorf("it waits for longer: %v", v)
	}
}
