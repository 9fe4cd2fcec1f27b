package action

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/plugins/handler"
)

// Failures for good are remembered up to a bound, even if each attempt of a delivery has other
// actions.
func TestHopelessIsBounded(t *testing.T) {
	var h hopeless
	known := func() (n int) {
		for _, l := range h.at {
			n += len(l.why)
		}
		return n
	}
	for _, deliveries := range []int{1, 7, 10_000} {
		for n := range 3 * maxHopeless {
			a := aPatch()
			a.Name = fmt.Sprint(n)
			id := fmt.Sprint(n % deliveries)
			h.add(id, 1, a, errors.New("no"))
			if h.of(id, a) == nil {
				t.Fatal("the newest failure is forgotten")
			}
		}
		if n := known(); n > maxHopeless || n != h.count {
			t.Errorf("%d failures of %d deliveries are remembered, and %d counted", n, deliveries, h.count)
		}
	}
	for id := range h.at {
		h.forget(id)
	}
	if h.count != 0 {
		t.Errorf("%d failures are counted when none is left", h.count)
	}
}

// After an attempt that did not come to the actions, the delivery may have been a dead letter that
// somebody retried because the cause is mended. So what failed for good is tried once more.
func TestHopelessEndsWithADeadLetter(t *testing.T) {
	s := newServer(t,
		answers(http.StatusUnprocessableEntity, status(422, "Invalid", "no", "")), // a is rejected,
		answers(http.StatusForbidden, status(403, "Forbidden", "no", "")),         // b fails;
		answers(http.StatusForbidden, status(403, "Forbidden", "no", "")),         // b fails again;
		answers(http.StatusOK, podAt("5")))                                        // and both succeed
	a, b := aPatch(), aPatch()
	a.Name, b.Name = "a", "b"
	ev := anEvent()
	var got []int
	for _, ev.Attempt = range []int{1, 2, 4} {
		before := len(s.heard)
		_ = s.Do(t.Context(), By{Rule: "r"}, ev, []handler.Action{a, b})
		got = append(got, len(s.heard)-before)
	}
	if got[0] != 2 || got[1] != 1 || got[2] < 2 {
		t.Errorf("the attempts made %d requests, want 2, 1, and at least 2", got)
	}
}

// However many actions of one rule fail, the log has the first failure of another.
func TestFailuresOfOneRuleHideNoOther(t *testing.T) {
	s := newServer(t, answers(http.StatusForbidden, status(403, "Forbidden", "no", "")))
	var many []handler.Action
	for i := range 70 {
		a := aPatch()
		a.Name = fmt.Sprint("web-", i)
		many = append(many, a)
	}
	_ = s.Do(t.Context(), By{Rule: "many"}, anEvent(), many)
	for range 2 {
		_ = s.Do(t.Context(), By{Rule: "one"}, anEvent(), []handler.Action{aPatch()})
	}
	log := s.audit.String()
	if n := strings.Count(log, "rule=many"); n != 64 {
		t.Errorf("%d failures of one rule are logged, want 64", n)
	}
	if n := strings.Count(log, "rule=one"); n != 1 {
		t.Errorf("the same failure of another rule is logged %d times, want once", n)
	}
}

// A rule with a handler and actions may record an Event by both, about the same object for the same
// reason. Each has a name of its own, or the second would count as a repeat.
func TestEventsOfAHandlerAndItsRule(t *testing.T) {
	s := newServer(t, answers(201, podAt("5")))
	event := handler.Action{
		Verb: handler.ActionEvent, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", Reason: "R",
	}
	names := make(map[string]int)
	for range 2 { // a repeat has the same names
		for _, by := range []By{{Rule: "r", Handler: "h"}, {Rule: "r"}} {
			if err := s.Do(t.Context(), by, anEvent(), []handler.Action{event}); err != nil {
				t.Fatal(err)
			}
			body := s.heard[len(s.heard)-1].body
			_, name, _ := strings.Cut(body, `"name":"`)
			name, _, _ = strings.Cut(name, `"`)
			names[name]++
		}
	}
	if len(names) != 2 {
		t.Errorf("names %v", names)
	}
}

// An error names an action as the manifest and all other mistakes do, however many actions the steps
// before it have made. A handler's action is named by its place in the answer.
func TestErrorsNameTheAction(t *testing.T) {
	first, second := []handler.Action{aPatch(), aPatch(), aPatch()}, aPatch()
	second.Name = "db-0"
	for by, c := range map[By]struct {
		actions []handler.Action
		want    string
	}{
		{Rule: "r"}:               {Join([]Step{{"actions[0]", first}, {"actions[2]", []handler.Action{second}}}), "actions[2]: patch of v1/pods shop/db-0: "},
		{Rule: "r", Handler: "h"}: {append(first, second), "actions[3]: patch of v1/pods shop/db-0: "},
	} {
		s := newServer(t,
			answers(http.StatusOK, podAt("5")), answers(http.StatusOK, podAt("6")), answers(http.StatusOK, podAt("7")),
			answers(http.StatusNotFound, status(404, "NotFound", "no", "")))
		if err := s.Do(t.Context(), by, anEvent(), c.actions); err == nil || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "rejected: "), c.want) {
			t.Errorf("by %+v: %v, want %s", by, err, c.want)
		}
	}
}
