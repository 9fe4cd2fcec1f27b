package action

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/plugins/handler"
)

// own performs a rule's own actions one after the other, and returns the first error.
func (s *server) own(by By, label string, actions ...handler.Action) (first error) {
	seq := s.Begin(s.t.Context(), by, anEvent(), nil)
	for i, a := range actions {
		if _, err := seq.One(s.t.Context(), Request{Action: a, Label: label, Number: i + 1}); first == nil {
			first = err
		}
	}
	return first
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
	_ = s.own(By{Rule: "many"}, "actions[0]", many...)
	for range 2 {
		_ = s.own(By{Rule: "one"}, "actions[0]", aPatch())
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
		for _, do := range []func() error{
			func() error {
				return s.Do(t.Context(), By{Rule: "r", Handler: "h"}, anEvent(), []handler.Action{event})
			},
			func() error { return s.own(By{Rule: "r"}, "actions[0]", event) },
		} {
			if err := do(); err != nil {
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

// An error names an action as the manifest and all other mistakes do, however many actions its
// others have made. A handler's action is named by its place in the answer.
func TestErrorsNameTheAction(t *testing.T) {
	last := aPatch()
	last.Name = "db-0"
	all := []handler.Action{aPatch(), aPatch(), aPatch(), last}
	for want, do := range map[string]func(s *server) error{
		"actions[2]: patch of v1/pods shop/db-0: ": func(s *server) error {
			return s.own(By{Rule: "r"}, "actions[2]", all...)
		},
		"actions[3]: patch of v1/pods shop/db-0: ": func(s *server) error {
			return s.Do(t.Context(), By{Rule: "r", Handler: "h"}, anEvent(), all)
		},
	} {
		s := newServer(t,
			answers(http.StatusOK, podAt("5")), answers(http.StatusOK, podAt("6")), answers(http.StatusOK, podAt("7")),
			answers(http.StatusNotFound, status(404, "NotFound", "no", "")))
		if err := do(s); err == nil || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "rejected: "), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
