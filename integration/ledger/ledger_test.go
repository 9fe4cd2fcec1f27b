package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/integration/ledger"
)

// The object of these tests lives twice: it is created at version 10, is updated to 11, 12 and 13,
// is of team blue at 12 only, is deleted, and is created again at 20. Each of these takes a moment
// of second 10, 11, …; the deletion second 15.
var key = ledger.Key{Resource: "configmaps", Name: "a"}

func second(n float64) time.Time { return time.Unix(1000, int64(n*1e9)) }

func write(n int) ledger.Write {
	return ledger.Write{Sent: second(float64(n)), Answered: second(float64(n) + .1)}
}

func state(version int, team string) ledger.State {
	return ledger.State{Write: write(version), Version: int64(version), Digest: fmt.Sprint("d", version), Team: team}
}

func history() ledger.History {
	gone := write(15)
	return ledger.History{key: {
		{UID: "one", States: []ledger.State{state(10, "red"), state(11, "red"), state(12, "blue"), state(13, "red")}, Deleted: &gone},
		{UID: "two", States: []ledger.State{state(20, "red")}},
	}}
}

var (
	every     = ledger.Rule{Name: "every", Resource: "configmaps", Every: true}
	red       = ledger.Rule{Name: "red", Resource: "configmaps", Every: true, Team: "red"}
	latest    = ledger.Rule{Name: "latest", Resource: "configmaps"}
	latestRed = ledger.Rule{Name: "latest red", Resource: "configmaps", Team: "red"}
)

// tell reads events from lines: "KIND UID VERSION [OLD]", told half a second after the write. "@N"
// moves the event to second N, "run=N" to another run, and "attempt=N" is another attempt. A
// deletion at 15 shows the state of 13.
func tell(rule ledger.Rule, lines ...string) (events []ledger.Event) {
	run := 1
	for _, line := range lines {
		var kind, uid string
		var version int
		n, err := fmt.Sscan(line, &kind, &uid, &version)
		if err != nil || n != 3 {
			panic(line)
		}
		ev := ledger.Event{
			At: second(float64(version) + .5), Rule: rule.Name, Kind: kind, Attempt: 1, Key: key, UID: uid, Version: int64(version),
			ID:     fmt.Sprintf("%s/%s/%s/%d", rule.Name, uid, kind, version),
			Object: &ledger.Seen{UID: uid, Version: int64(version), Digest: fmt.Sprint("d", version)},
		}
		if version == 15 {
			ev.Object.Digest = "d13"
		}
		for _, word := range strings.Fields(line)[3:] {
			var old int
			var at float64
			switch {
			case scan(word, "@%g", &at):
				ev.At = second(at)
			case scan(word, "run=%d", &run):
			case scan(word, "attempt=%d", &ev.Attempt):
			case scan(word, "%d", &old):
				ev.Old = &ledger.Seen{UID: uid, Version: int64(old), Digest: fmt.Sprint("d", old)}
			default:
				panic(word)
			}
		}
		ev.Run = run
		events = append(events, ev)
	}
	return events
}

func scan(word, format string, to any) bool {
	n, err := fmt.Sscanf(word, format, to)
	return err == nil && n == 1
}

func trial(rule ledger.Rule, lines ...string) ledger.Trial {
	return ledger.Trial{
		History: history(), Rules: []ledger.Rule{rule}, Events: tell(rule, lines...), Ready: second(1), Unwritten: time.Second,
	}
}

var wholly = map[string][]string{
	"every":  {"added one 10", "updated one 11 10", "updated one 12 11", "updated one 13 12", "deleted one 15", "added two 20"},
	"red":    {"added one 10", "updated one 11 10", "deleted one 11 @12.5", "added one 13", "deleted one 15", "added two 20"},
	"latest": {"added one 11", "updated one 13 11", "deleted one 15", "added two 20"},
}

// crash is one at a second, with the daemon down for half of one.
func crash(at float64) func(*ledger.Trial) {
	return func(t *ledger.Trial) {
		t.Crashes = append(t.Crashes, ledger.Crash{From: second(at), To: second(at + .01)})
	}
}

func lost(from, to float64) func(*ledger.Trial) {
	return func(t *ledger.Trial) { t.Lost = append(t.Lost, ledger.Window{From: second(from), To: second(to)}) }
}

func TestCheckAccepts(t *testing.T) {
	for _, test := range []struct {
		why    string
		rule   ledger.Rule
		events []string
		with   []func(*ledger.Trial)
		want   ledger.Report // of the counts, what is not zero
	}{
		{why: "every change", rule: every, events: wholly["every"]},
		{why: "membership", rule: red, events: wholly["red"]},
		{why: "merged", rule: latest, events: wholly["latest"]},
		{why: "nothing but the end", rule: latest, events: []string{"added two 20"}},
		{why: "what was there before comes as synced", rule: every,
			events: slices.Concat([]string{"synced one 10"}, wholly["every"][1:]),
			with:   []func(*ledger.Trial){func(t *ledger.Trial) { t.Ready = second(10.3) }}},
		{why: "synced, merged with what came behind", rule: latest,
			events: []string{"synced one 12", "updated one 13 12", "deleted one 15", "added two 20"},
			with:   []func(*ledger.Trial){func(t *ledger.Trial) { t.Ready = second(10.3) }}},
		{why: "synced, merged with a change without history: left and came back", rule: latestRed,
			events: []string{"synced one 13", "deleted one 15", "added two 20"},
			with: []func(*ledger.Trial){crash(11.8), lost(10.8, 14),
				func(t *ledger.Trial) { t.Ready = second(10.3) }}},
		{why: "a repeat after a crash, and on from there", rule: every, with: []func(*ledger.Trial){crash(12.6)},
			events: []string{"added one 10", "updated one 11 10 @12.4", "updated one 12 11",
				"updated one 11 10 run=2 @13", "updated one 12 11 @13.1", "updated one 13 12", "deleted one 15", "added two 20"},
			want: ledger.Report{Repeats: 2}},
		{why: "a handler that outlived its daemon for a moment", rule: every, with: []func(*ledger.Trial){crash(11.49)},
			events: []string{"added one 10", "updated one 12 11 run=2", "updated one 11 10 run=1 @11.495", "updated one 13 12 run=2",
				"deleted one 15", "added two 20"}},
		{why: "merged behind a crash with what was told and not written", rule: latest, with: []func(*ledger.Trial){crash(12.6)},
			events: []string{"added one 10", "updated one 12 10", "updated one 13 10 run=2", "deleted one 15", "added two 20"}},
		{why: "left, came back and went, in one", rule: latestRed, with: []func(*ledger.Trial){crash(11.6)},
			events: []string{"added one 10", "updated one 11 10", "deleted one 15 run=2", "added two 20"}},
		{why: "gone before a run that began behind a crash had caught up; it cannot know who was told", rule: latest,
			with:   []func(*ledger.Trial){crash(5), func(t *ledger.Trial) { t.Caught = map[int]time.Time{2: second(10.5)} }},
			events: []string{"deleted one 15 run=2", "added two 20"}},
		{why: "after a crash without history: the last state, with the real old", rule: every,
			with:   []func(*ledger.Trial){crash(10.8), lost(9.8, 14)},
			events: []string{"added one 10", "updated one 13 10 run=2", "deleted one 15", "added two 20"},
			want:   ledger.Report{Missed: 2}},
		{why: "without history: gone and created again", rule: every, with: []func(*ledger.Trial){crash(11.8), lost(10.8, 21)},
			events: []string{"added one 10", "updated one 11 10", "deleted one 11 run=2 @20.5", "added two 20"},
			want:   ledger.Report{Missed: 2}},
		{why: "without history: left and came back", rule: red, with: []func(*ledger.Trial){crash(11.8), lost(10.8, 14)},
			events: []string{"added one 10", "updated one 11 10", "updated one 13 11 run=2", "deleted one 15", "added two 20"},
			want:   ledger.Report{Missed: 1}},
		{why: "without history: told again, older than what was told before the crash", rule: every,
			with:   []func(*ledger.Trial){crash(13.6), lost(12.2, 16)},
			events: []string{"added one 10", "updated one 11 10", "updated one 12 11 @13", "updated one 13 12", "deleted one 12 run=2 @16", "added two 20"}},
		{why: "without history: added again, as the disk did not know of it", rule: every, with: []func(*ledger.Trial){crash(10.6), lost(9.6, 12)},
			events: []string{"added one 10", "added one 11 run=2", "updated one 12 11", "updated one 13 12", "deleted one 15", "added two 20"}},
		{why: "without history: an old that is older than what was told", rule: every, with: []func(*ledger.Trial){crash(11.6), lost(10.6, 13)},
			events: []string{"added one 10", "updated one 11 10", "updated one 12 10 run=2", "updated one 13 12", "deleted one 15", "added two 20"}},
	} {
		t.Run(test.rule.Name+": "+test.why, func(t *testing.T) {
			trial := trial(test.rule, test.events...)
			for _, with := range test.with {
				with(&trial)
			}
			report := ledger.Check(trial)
			for _, p := range report.Problems {
				t.Error(trial.Explain(p))
			}
			if report.Repeats != test.want.Repeats || report.Missed != test.want.Missed {
				t.Errorf("%d repeats, %d missed; want %d, %d", report.Repeats, report.Missed, test.want.Repeats, test.want.Missed)
			}
		})
	}
}

// Each of these ledgers has one mistake in it.
func TestCheckFinds(t *testing.T) {
	change := func(rule ledger.Rule, i int, with ...string) []string {
		return slices.Replace(slices.Clone(wholly[rule.Name]), i, i+1, with...)
	}
	for _, test := range []struct {
		mistake string
		rule    ledger.Rule
		events  []string
		with    []func(*ledger.Trial)
		want    string
	}{
		// Losses.
		{mistake: "nothing at all", rule: every, want: "never came"},
		{mistake: "nothing at all", rule: latest, want: "the last of it"},
		{mistake: "a change is left out", rule: every, events: change(every, 2), want: "not updated of version 12 (one) before it"},
		{mistake: "the deletion is left out", rule: every, events: change(every, 4), want: "not deleted of version 13"},
		{mistake: "the deletion is left out", rule: latest, events: change(latest, 2), want: "was never told"},
		{mistake: "the end is left out", rule: every, events: wholly["every"][:5], want: "the last of it, added of version 20"},
		{mistake: "the end is left out", rule: latest, events: wholly["latest"][:3], want: "the last of it, added of version 20"},
		{mistake: "it left the rule, and that is left out", rule: red, events: change(red, 2), want: "not deleted of version 11"},
		{mistake: "the last deletion is left out", rule: latest, events: wholly["latest"][:2], want: "was never told",
			with: []func(*ledger.Trial){func(t *ledger.Trial) { t.History[key] = t.History[key][:1] }}},
		{mistake: "a change before the history was lost is left out", rule: every, want: "not updated of version 11",
			with:   []func(*ledger.Trial){crash(12.6), lost(11.6, 14)},
			events: []string{"added one 10", "updated one 13 10 run=2", "deleted one 15", "added two 20"}},
		{mistake: "a deletion is left out though the disk knew of the object", rule: every, want: "was never told",
			with:   []func(*ledger.Trial){crash(13.8), lost(12.8, 21)},
			events: []string{"added one 10", "updated one 11 10", "updated one 12 11", "updated one 13 12", "added two 20 run=2"}},
		{mistake: "the same under latest", rule: latest, want: "was never told",
			with: []func(*ledger.Trial){crash(13.8), lost(12.8, 21)}, events: []string{"added one 10", "added two 20 run=2"}},
		{mistake: "a deletion is left out, of an object that was told of just before the crash", rule: every, want: "was never told",
			with: []func(*ledger.Trial){crash(10.8), lost(9.8, 21)}, events: []string{"added one 10", "added two 20"}},
		{mistake: "the final state is left out, with the history lost", rule: every, want: "the last of it",
			with: []func(*ledger.Trial){crash(13.8), lost(12.8, 21)}, events: wholly["every"][:5]},

		// Order.
		{mistake: "two change places", rule: every, want: "not updated of version 11",
			events: []string{"added one 10", "updated one 12 11", "updated one 11 10 @12.6", "updated one 13 12", "deleted one 15", "added two 20"}},
		{mistake: "one goes back", rule: latest, want: "nothing had crashed",
			events: []string{"added one 10", "updated one 12 10", "updated one 11 10 @12.6", "updated one 13 12", "deleted one 15", "added two 20"}},
		{mistake: "the second life begins before the first ends", rule: every, want: "not deleted of version 13",
			events: []string{"added one 10", "updated one 11 10", "updated one 12 11", "updated one 13 12", "added two 20", "deleted one 15 @20.6"}},
		{mistake: "after a repeat it goes on somewhere else", rule: every, with: []func(*ledger.Trial){crash(12.6)}, want: "not updated of version 12",
			events: []string{"added one 10", "updated one 11 10 @12.4", "updated one 12 11", "updated one 11 10 run=2 @13",
				"updated one 13 12", "deleted one 15", "added two 20"}},

		// Inventions.
		{mistake: "another uid", rule: every, events: change(every, 1, "updated three 11 10"), want: "has given no object of this name the uid three"},
		{mistake: "a version that never was", rule: every, events: change(every, 1, "updated one 14 10"), want: "has never had it as shown"},
		{mistake: "another content", rule: every, events: wholly["every"], want: "has never had it as shown",
			with: []func(*ledger.Trial){func(t *ledger.Trial) { t.Events[1].Object.Digest = "d10" }}},
		{mistake: "deleted though it is there", rule: every, events: append(wholly["every"][:6:6], "deleted two 20 @21"), want: "still there"},
		{mistake: "deleted with a version of its own though it only left the rule", rule: red, want: "outside of the rule",
			events: change(red, 2, "deleted one 12 @12.5")},
		{mistake: "outside of the rule", rule: red, events: append(wholly["red"][:2:2], "updated one 12 11"), want: "outside of the rule"},
		{mistake: "synced though it came later", rule: every, events: change(every, 0, "synced one 10"), want: "synced, though"},
		{mistake: "synced though it left and came back later, with history", rule: latestRed, want: "synced, though",
			events: []string{"synced one 13", "deleted one 15", "added two 20"},
			with:   []func(*ledger.Trial){func(t *ledger.Trial) { t.Ready = second(10.3) }}},
		{mistake: "added twice", rule: every, events: change(every, 1, "added one 11"), want: "though the rule knew of it"},
		{mistake: "deleted and never told of", rule: latest, events: wholly["latest"][2:], want: "was never told of it"},
		{mistake: "deleted and never told of, though the run had caught up", rule: latest, want: "was never told of it",
			with:   []func(*ledger.Trial){crash(5), func(t *ledger.Trial) { t.Caught = map[int]time.Time{2: second(9)} }},
			events: []string{"deleted one 15 run=2", "added two 20"}},
		{mistake: "another object", rule: every, events: wholly["every"], want: "nobody has written such an object",
			with: []func(*ledger.Trial){func(t *ledger.Trial) { t.Events[1].Key.Name = "b" }}},
		{mistake: "another rule", rule: every, events: wholly["every"], want: "no such rule",
			with: []func(*ledger.Trial){func(t *ledger.Trial) { t.Events[1].Rule = "other" }}},
		{mistake: "no object", rule: every, events: wholly["every"], want: "shows no object",
			with: []func(*ledger.Trial){func(t *ledger.Trial) { t.Events[1].Object = nil }}},
		{mistake: "the object of another version than it says", rule: every, events: wholly["every"], want: "and shows one at 10",
			with: []func(*ledger.Trial){func(t *ledger.Trial) { t.Events[1].Object = t.Events[0].Object }}},

		// Old states.
		{mistake: "no old", rule: every, events: change(every, 1, "updated one 11"), want: "an updated shows the old state"},
		{mistake: "an old that never was", rule: every, events: change(every, 1, "updated one 11 9"), want: "no earlier state"},
		{mistake: "an old that is newer", rule: every, events: change(every, 1, "updated one 11 12"), want: "no earlier state"},
		{mistake: "not the old before it", rule: every, events: change(every, 2, "updated one 12 10"), want: "old is version 10, want 11"},
		{mistake: "not the old that was told", rule: latest, events: change(latest, 1, "updated one 13 12"), want: "not what was told before"},
		{mistake: "an old outside of the rule", rule: red, events: change(red, 3, "updated one 13 12"), want: "no earlier state"},
		{mistake: "a deletion that does not show the last state", rule: red, events: change(red, 2, "deleted one 10 @12.5"), want: "does not show the last state"},

		// Repeats.
		{mistake: "a repeat with nothing having crashed", rule: every, want: "nothing had crashed",
			events: change(every, 1, "updated one 11 10", "updated one 11 10 attempt=2 @11.6")},
		{mistake: "a repeat of long ago", rule: every, with: []func(*ledger.Trial){crash(13.6)}, want: "told 2.1s before the crash",
			events: []string{"added one 10", "updated one 11 10", "updated one 12 11 @13.1", "updated one 11 10 run=2 @13.7",
				"updated one 12 11 @13.8", "updated one 13 12 @13.9", "deleted one 15", "added two 20"}},
		{mistake: "a repeat under another id", rule: every, with: []func(*ledger.Trial){crash(11.6)}, want: "not as a repeat",
			events: change(every, 1, "updated one 11 10", "added one 11 run=2 @11.7")},
		{mistake: "added again, with history", rule: every, with: []func(*ledger.Trial){crash(10.6)}, want: "it was updated",
			events: change(every, 1, "added one 11 run=2")},
		{mistake: "an old that is older than what was told, with history", rule: every, with: []func(*ledger.Trial){crash(11.6)}, want: "old is version 10, want 11",
			events: change(every, 2, "updated one 12 10 run=2")},
		{mistake: "a repeat with another old", rule: every, with: []func(*ledger.Trial){crash(12.6)}, want: "the repeat has another old",
			events: change(every, 2, "updated one 12 11", "updated one 12 10 run=2 @12.7")},
		{mistake: "an attempt that does not count", rule: every, with: []func(*ledger.Trial){crash(11.6)}, want: "attempt 1 came after attempt 1",
			events: change(every, 1, "updated one 11 10", "updated one 11 10 @11.7")},
		{mistake: "one id for two events", rule: every, events: wholly["every"], want: "the same id was another event", with: []func(*ledger.Trial){
			crash(11.6), func(t *ledger.Trial) { t.Events[2].ID = t.Events[1].ID },
		}},
	} {
		t.Run(test.rule.Name+": "+test.mistake, func(t *testing.T) {
			trial := trial(test.rule, test.events...)
			for _, with := range test.with {
				with(&trial)
			}
			report := ledger.Check(trial)
			var all strings.Builder
			for _, p := range report.Problems {
				all.WriteString(trial.Explain(p))
			}
			if !strings.Contains(all.String(), test.want) {
				t.Errorf("no problem that says %q; there are:\n%s", test.want, all.String())
			}
		})
	}
}

// What a person reads of a problem has both ledgers of the object, in order of time.
func TestExplain(t *testing.T) {
	trial := trial(every, wholly["every"][:5]...)
	crash(12.6)(&trial)
	lost(12, 14)(&trial)
	report := ledger.Check(trial)
	if len(report.Problems) != 1 {
		t.Fatalf("%v; want one", report.Problems)
	}
	got := trial.Explain(report.Problems[0])
	last := -1
	for _, part := range []string{
		"every configmaps/a: the last of it, added of version 20 (two), never came", "ready ", "created one version 10",
		"added version 10", "updated one version 11", "updated version 11 old 10", "perhaps lost", "history ", "crash ",
		"deleted one", "deleted version 15", "created two version 20",
	} {
		at := strings.Index(got, part)
		if at <= last {
			t.Errorf("%q is not there, or not in its place:\n%s", part, got)
		}
		last = at
	}
}

func TestLook(t *testing.T) {
	look := func(text string) ledger.Seen {
		t.Helper()
		seen, team, name, err := ledger.Look([]byte(text))
		if err != nil || team != "red" || name != "a" {
			t.Fatalf("%v, team %q, name %q", err, team, name)
		}
		return seen
	}
	one := look(`{"metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{"team":"red"},"managedFields":[{}]},"data":{"x":"1"}}`)
	two := look(`{"data":{"x":"1"},"metadata":{"labels":{"team":"red"},"resourceVersion":"8","name":"a","uid":"u"}}`)
	other := look(`{"data":{"x":"2"},"metadata":{"labels":{"team":"red"},"resourceVersion":"8","name":"a","uid":"u"}}`)
	if one.UID != "u" || one.Version != 7 || two.Version != 8 {
		t.Errorf("%+v and %+v", one, two)
	}
	if one.Digest != two.Digest || one.Digest == other.Digest {
		t.Errorf("digests of the same content: %s and %s; of another: %s", one.Digest, two.Digest, other.Digest)
	}
	for _, bad := range []string{`{`, `[]`, `{}`, `{"metadata":{"resourceVersion":"x"}}`} {
		if _, _, _, err := ledger.Look([]byte(bad)); err == nil {
			t.Errorf("%s is no object", bad)
		}
	}
}
