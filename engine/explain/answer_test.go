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
			Explanation{Events: all, When: when, Changes: declined},
			"Its last change (updated), 1m ago, was not delivered: when was false then. It is true now. informd rule resync r has it see all members now.",
		},
		"a when that was mended, of a rule that cannot be told again": {
			Explanation{Events: all[:2], When: when, Changes: declined},
			"Its last change (updated), 1m ago, was not delivered: when was false then. It is true now.",
		},
		"a change that the rule did not look at, as it was": {
			Explanation{Events: all, Changes: delivered, Attempts: attempts},
			"Its last event (updated) was delivered 1m ago. The rule, as it is, has not seen its changes since then. informd rule resync r has it see all members now.",
		},
		"changes of another type": {
			Explanation{Events: all[:2], Changes: delivered, Attempts: attempts},
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
