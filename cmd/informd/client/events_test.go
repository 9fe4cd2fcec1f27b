package client

import (
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/engine/explain"
)

// Each line says what has been done, and by whom.
func TestHappened(t *testing.T) {
	for what, want := range map[string]string{
		"selected":  "selected",
		"void":      "cancelled out with the change before, which still waited",
		"own":       "not delivered: the rule made this change itself",
		"sent":      "sent to h, attempt 2",
		"done":      "acknowledged after 5ms, 1.5s since it was selected",
		"acts":      "performs its actions, attempt 2",
		"acted":     "actions performed after 5ms, 1.5s since it was selected",
		"unchanged": "nothing had to change, ended after 5ms, 1.5s since it was selected",
		"gone":      "actions changed nothing, as an object is gone: ended after 5ms, 1.5s since it was selected",
		"undecided": "waits, and is evaluated at its delivery",
		"rounds":    "not selected: the rule sees the moments of its schedule only",
		"pruned":    "no action but prune, ended after 5ms, 1.5s since it was selected",
		"cancelled": "cancelled after 5ms, attempt 2, comes again",
		"tried":     "dry run: only logged",
		"idle":      "no action: each if is false, or its forEach empty",
		"reject":    "rejected after 5ms, attempt 2: a dead letter",
		"unmade":    "could not be made after 5ms, attempt 2: a dead letter",
		"outdated":  "given up: the object has changed since",
	} {
		o := explain.Outcome{What: what, Event: "added", Attempt: 2, DurationSeconds: 0.005, LatencySeconds: 1.5}
		if got := happened("h", o); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	alone := explain.Outcome{What: "reject", DurationSeconds: 0.005}
	if got, want := happened(control.OwnActions, alone), "its actions failed for good after 5ms: a dead letter"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A rule that has selected changes and never acted says why.
func TestRuleThatNeverActed(t *testing.T) {
	rules := []control.RuleStatus{
		{Name: "never", Handler: control.OwnActions, State: control.RuleActive, Matches: 2, Idle: 2},
		{Name: "once", Handler: control.OwnActions, State: control.RuleActive, Matches: 3, Idle: 2, Acted: 1},
	}
	var b strings.Builder
	if err := writeRules(&b, rules, new(controlFlags), shape{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	_, notes, _ := strings.Cut(b.String(), "\nonce ")
	_, notes, _ = strings.Cut(notes, "\n")
	if want := "never: no action yet: for 2 events, each if was false, or its forEach empty\n"; notes != want {
		t.Errorf("below the table: %q, want %q", notes, want)
	}
}

// A later success of a rule that acts itself is no delivery.
func TestSinceThen(t *testing.T) {
	for handler, want := range map[string]string{"h": "delivered", control.OwnActions: "succeeded"} {
		if got := sinceThen(control.Letter{Handler: handler, Delivered: time.Now()}); got != want {
			t.Errorf("of %s: %q, want %q", handler, got, want)
		}
	}
}
