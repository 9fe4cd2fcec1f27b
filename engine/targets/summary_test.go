package targets

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
)

// perform is a wave that asks for targets, which own, and settles those that it may try. outcomes
// has what is not Done, by the target's namespace.
func perform(table *Table, a Asker, at time.Time, outcomes map[string]Outcome, wants ...Target) {
	w := table.Begin(a, 1)
	for _, one := range wants {
		w.Ask(one, true)
	}
	w.Asked(true)
	for _, one := range wants {
		attempt, verdict := w.Try(one, at)
		if verdict != Try {
			continue
		}
		o, ok := outcomes[one.Key.Namespace]
		if !ok {
			o.State = Done
		}
		attempt.Settle(o, at)
	}
}

// short returns what a Summary has, in a line each.
func short(s Summary) (lines []string) {
	for _, state := range States() {
		if n := s.States[state]; n > 0 {
			lines = append(lines, fmt.Sprintf("%d %s", n, state))
		}
	}
	lines = append(lines, fmt.Sprintf("%d owned", s.Owned))
	for _, c := range s.First {
		lines = append(lines, fmt.Sprintf("%s %s %s", c.Asker.Key, c.State, c.Target.Key))
	}
	return lines
}

// A summary counts all claims, and names first those that fail, then those behind another one.
func TestSummaryNamesWhatFailsFirst(t *testing.T) {
	t.Parallel()
	table := New(nil)
	asker := func(name string) Asker { return Asker{"copy", delta.Key{Namespace: "shop", Name: name}} }
	outcomes := map[string]Outcome{
		"full": {State: Waits, Cause: "quota", Reason: "exceeded"},
		"bad":  {State: Refused, Cause: "invalid", Reason: "no"},
	}
	for _, name := range []string{"a", "b"} {
		perform(table, asker(name), noon, outcomes,
			config("t1", name), config("t2", name), config("bad", name), config("full", name))
	}
	perform(table, asker("c"), noon, nil, config("t1", "a"))
	perform(table, Asker{"other", delta.Key{Name: "x"}}, noon, nil, config("t1", "x"))

	counts := []string{"4 done", "2 waits", "2 refused", "1 behind", "8 owned"}
	for most, want := range map[int][]string{
		0: nil,
		3: {"shop/a waits full/a", "shop/b waits full/b", "shop/a refused bad/a"},
		9: {
			"shop/a waits full/a", "shop/b waits full/b", "shop/a refused bad/a",
			"shop/b refused bad/b", "shop/c behind t1/a",
		},
	} {
		got := short(table.Summarize("copy", most))
		if diff := cmp.Diff(slices.Concat(counts, want), got); diff != "" {
			t.Errorf("the first %d (-want +got)\n%s", most, diff)
		}
	}
	s := table.SummarizeOf(asker("a"), 3)
	want := []string{
		"2 done", "1 waits", "1 refused", "4 owned",
		"shop/a waits full/a", "shop/a refused bad/a", "shop/a done t1/a",
	}
	if diff := cmp.Diff(want, short(s)); diff != "" || s.All() != 4 {
		t.Errorf("of one object: %d in all (-want +got)\n%s", s.All(), diff)
	}
	if s := table.Summarize("typo", 3); s.All() != 0 {
		t.Errorf("a rule without claims has %d", s.All())
	}
}

// What is to be deleted counts as dropped. It is named if its deletion fails.
func TestSummaryOfADeletionThatFails(t *testing.T) {
	t.Parallel()
	table := New(nil)
	a := Asker{"copy", delta.Key{Name: "a"}}
	perform(table, a, noon, nil, config("t1", "a"), config("t2", "a"))
	w := table.Begin(a, 2)
	w.Asked(true)
	for _, c := range []string{"t1", "t2"} {
		attempt, _ := w.TryDropped(config(c, "a"), noon)
		if c == "t2" {
			attempt.Settle(Outcome{State: Waits, Cause: "permission"}, noon)
		}
	}
	want := []string{"2 dropped", "0 owned", "a dropped t2/a"}
	if diff := cmp.Diff(want, short(table.Summarize("copy", 3))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Sorted is in order of the source objects, however many there are, and leaves out what goes
// meanwhile.
func TestSortedIsInOrderOfTheSourceObjects(t *testing.T) {
	t.Parallel()
	table := New(nil)
	var want []string
	for i := range 2*manyAskers + 1 {
		a := Asker{"copy", delta.Key{Name: fmt.Sprintf("o%04d", i)}}
		perform(table, a, noon, nil, config("t2", a.Key.Name), config("t1", a.Key.Name))
		want = append(want, a.Key.Name+" t2", a.Key.Name+" t1")
	}
	var got []string
	for c := range table.Sorted("copy") {
		got = append(got, c.Asker.Key.Name+" "+c.Target.Key.Namespace)
		if len(got) == 1 {
			table.Release("copy", func(c Claim) bool { return c.Asker.Key.Name == "o0300" })
		}
	}
	want = slices.DeleteFunc(want, func(line string) bool { return line[:5] == "o0300" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// BenchmarkSummarize is what a look at a rule costs per claim.
func BenchmarkSummarize(b *testing.B) {
	table := New(nil)
	fill(table, 100_000)
	b.ResetTimer()
	for i := 0; i < b.N; i += 100_000 {
		table.Summarize("copy", 3)
	}
}
