package explain

import (
	"encoding/json"
	"testing"
	"time"
)

// What a reload leaves behind: changes that the rule saw as it was then. The simulations in
// engine/simulate show the other answers.
func TestAnswersAfterTheRuleHasChanged(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := []string{"added", "updated", "deleted", "synced"}
	when := &When{Text: "x", Event: "updated", Part: &Part{Text: "x", Evaluated: true, Value: json.RawMessage("true")}}
	declined := []Happened{{Time: now.Add(-time.Minute), ResourceVersion: "7", Outcome: Outcome{Event: "updated", What: "when"}}}
	delivered := []Happened{{Time: now.Add(-time.Minute), ResourceVersion: "6", Outcome: Outcome{Event: "updated", What: "selected"}}}
	attempts := []Happened{{Time: now.Add(-time.Minute), ResourceVersion: "6", Outcome: Outcome{Event: "updated", What: "done"}}}
	for name, test := range map[string]struct {
		given Explanation
		want  string
	}{
		"a when that was mended": {
			Explanation{Stages: Stages{Events: all, When: when}, Changes: declined},
			"Its last change (updated), 1m ago, was not delivered: when was false then. It is true now. informd rule resync r has it see all members now.",
		},
		"a when that was mended, of a rule that cannot be told again": {
			Explanation{Stages: Stages{Events: all[:2], When: when}, Changes: declined},
			"Its last change (updated), 1m ago, was not delivered: when was false then. It is true now.",
		},
		"a change that the rule did not look at, as it was": {
			Explanation{Stages: Stages{Events: all}, Changes: delivered, Daemon: Daemon{Attempts: attempts}},
			"Its last event (updated) was delivered 1m ago. The rule, as it is, has not seen its changes since then. informd rule resync r has it see all members now.",
		},
		"changes of another type": {
			Explanation{Stages: Stages{Events: all[:2]}, Changes: delivered, Daemon: Daemon{Attempts: attempts}},
			"Its last event (updated) was delivered 1m ago. Changes since then are no events: the rule's events are added, updated.",
		},
	} {
		x := test.given
		x.Rule, x.Object, x.State, x.Standing, x.Time, x.ResourceVersion = "r", "shop/a", "active", Member, now, "7"
		x.Source.Name = "maps"
		x.Conclude()
		if want := "It is a member, as all objects of the source are. " + test.want; x.Answer != want {
			t.Errorf("%s: %q\nwant %q", name, x.Answer, want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1500 * time.Microsecond: "2ms", 12 * time.Second: "12s", 2 * time.Minute: "2m",
		3*time.Minute + 12*time.Second: "3m12s", 64*time.Minute + 5*time.Second: "1h4m", 2 * time.Hour: "2h",
		50 * time.Hour: "2 days",
	} {
		if got := Short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// The answer about an event that waits depends on what it waits for.
func TestAnswersAboutWaiting(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, d := range map[string]Delivery{
		"Its last event (updated) has failed 5 times, and is tried again in 6s: no room.":                            {Failures: 5, Failure: "no room."},
		"Its last event (updated) has failed 5 times, and is tried again in 6s, or when the object changes: full.":   {Failures: 5, Failure: "full", RetryOnChange: true},
		"Its last event (updated) has failed 2 times, and is tried again in 6s; why is not remembered.":              {Failures: 2},
		"Its last event (updated) was lost with its handler 1 time, and is tried again in 6s: exit status 1.":        {Losses: 1, Failure: "exit status 1"},
		"Its last event (updated) was decided on an older state of the object, and is tried again in 6s.":            {Refusals: 1},
		"Its last event (updated) is held back, and comes in 6s: rules a and b chase each other, 9 writes deep.":     {Slowed: "rules a and b chase each other, 9 writes deep"},
		"Its last event (updated) waits, and comes in 6s.":                                                           {},
		"Its last event (updated) has failed 1 time, and is tried again in 6s: not shown, as it may quote a secret.": {Failures: 1, Failure: "not shown, as it may quote a secret", Slowed: "slowly"},
	} {
		d.Handler, d.Event, d.Retry = "h", "updated", now.Add(6*time.Second)
		x := Explanation{State: "active", Time: now, Daemon: Daemon{Delivery: &d}, Standing: Absent, Stages: Stages{Source: Source{Name: "maps"}}}
		x.Conclude()
		if got := x.Answer[len("The source maps has no such object. "):]; got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
}

// What the rule's own actions came to, and which of them were not performed.
func TestAnswersAboutActions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const id = "r/u/added/7"
	for name, test := range map[string]struct {
		handler string
		what    []string // of the attempts: with a number, of another attempt than the first
		done    []Action
		answer  string
		want    []string
	}{
		"performed": {
			ownActions, []string{"acts", "acted"}, nil,
			"The actions for its last event (added) were performed 1s ago.", []string{"", ""},
		},
		"nothing had to change": {
			ownActions, []string{"acts", "unchanged"}, nil,
			"For its last event (added), nothing had to change, 1s ago: all was as the rule's actions ask.", []string{"", ""},
		},
		"gone, after a handler": {
			"h", []string{"sent", "done", "acts", "gone"}, nil,
			"Its last event (added) was delivered. The actions for it changed nothing, 1s ago: an object that they are about is gone, or its namespace ends.",
			[]string{"", ""},
		},
		"the handler rejected": {
			"h", []string{"sent", "reject"}, nil, "Its last event (added) became a dead letter 1s ago.",
			[]string{"not performed: the handler rejected the event", "not performed: the handler rejected the event"},
		},
		"the handler failed": {
			"h", []string{"sent", "dead"}, nil, "Its last event (added) became a dead letter 1s ago.",
			[]string{"not performed: the handler failed with the event for the last time", "not performed: the handler failed with the event for the last time"},
		},
		"the handler has it": {
			"h", []string{"sent"}, nil, "Its last event (added) was sent 1s ago.",
			[]string{"not performed yet: handler h comes first", "not performed yet: handler h comes first"},
		},
		"an expression failed": {
			ownActions, []string{"unmade"}, nil, "Its last event (added) became a dead letter 1s ago.",
			[]string{"not performed: an expression failed", "not performed: an expression failed"},
		},
		"the first failed": {
			ownActions, []string{"acts", "reject"}, []Action{{ID: id, Attempt: 1, Label: "actions[0]", Result: "rejected"}},
			"Its last event (added) became a dead letter 1s ago.", []string{"failed", "not performed: actions[0] failed"},
		},
		"the second failed": {
			"h", []string{"sent", "done", "acts", "reject"}, []Action{
				{ID: id, Attempt: 1, Label: "actions[0]", Result: "done"}, {ID: id, Attempt: 1, Label: "actions[1]", Result: "failed"},
			},
			"Its last event (added) became a dead letter 1s ago.", []string{"", "failed"},
		},
		"none was allowed": {
			ownActions, []string{"acts", "reject"}, nil, "Its last event (added) became a dead letter 1s ago.",
			[]string{"not performed: the event was refused", "not performed: the event was refused"},
		},
		"a dry run": {
			ownActions, []string{"tried"}, nil, "Its last event (added) was only logged, 1s ago: informd runs dry.",
			[]string{"only logged: informd runs dry", "only logged: informd runs dry"},
		},
	} {
		x := Explanation{
			Rule: "r", Handler: test.handler, State: "active", Time: now, Standing: Member, ResourceVersion: "7",
			Stages: Stages{Events: []string{"added", "updated", "deleted", "synced"}, Source: Source{Name: "maps"}}, Daemon: Daemon{Actions: test.done},
			Acts: &Acts{Event: "added", Actions: []OwnAction{{Label: "actions[0]", Made: 1}, {Label: "actions[1]", Made: 1}}},
		}
		for _, what := range test.what {
			x.Attempts = append(x.Attempts, Happened{Time: now.Add(-time.Second), Outcome: Outcome{Event: "added", What: what, ID: id, Attempt: 1}, ResourceVersion: "7"})
		}
		x.Conclude()
		if want := "It is a member, as all objects of the source are. " + test.answer; x.Answer != want {
			t.Errorf("%s: %q\nwant %q", name, x.Answer, want)
		}
		for i, want := range test.want {
			if got := x.Acts.Actions[i].Outcome; got != want {
				t.Errorf("%s: actions[%d]: %q, want %q", name, i, got, want)
			}
		}
	}
}
