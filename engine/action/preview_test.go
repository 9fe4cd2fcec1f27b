package action

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// A preview asks for nothing but dry runs, whatever the action, and informd does not take them for
// changes of its own.
func TestPreviewWritesNothing(t *testing.T) {
	on := func(verb string, more func(*handler.Action)) handler.Action {
		a := handler.Action{Verb: verb, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0"}
		if more != nil {
			more(&a)
		}
		return a
	}
	whole := func(a *handler.Action) { a.Object = json.RawMessage(`{"spec":{}}`) }
	merge := func(a *handler.Action) { a.Patch = json.RawMessage(`{"spec":{}}`) }
	actions := []handler.Action{
		on(handler.ActionApply, whole), on(handler.ActionCreate, whole), on(handler.ActionPatch, merge),
		on(handler.ActionPatch, func(a *handler.Action) { merge(a); a.Subresource = "status" }),
		on(handler.ActionPatch, func(a *handler.Action) {
			a.PatchType, a.Patch = handler.JSONPatch, json.RawMessage(`[{"op":"add","path":"/spec","value":{}}]`)
		}),
		on(handler.ActionDelete, nil), on(handler.ActionEvent, func(a *handler.Action) { a.Reason = "R" }),
		Prune(pods, "of=x"),
	}
	for name, answer := range map[string]func(http.ResponseWriter){
		"there":     answers(200, podAt("5")),
		"not there": answers(404, status(404, "NotFound", "not found", `"name":"web-0","kind":"pods"`)),
		"pruned":    answers(200, fmt.Sprintf(pods2, "")),
	} {
		s := newServer(t, answer)
		s.Preview(t.Context(), By{Rule: "r"}, anEvent(), actions, func(Preview) {})
		if len(s.heard) < len(actions)-1 {
			t.Errorf("%s: only %d requests", name, len(s.heard))
		}
		for _, h := range s.heard {
			if h.method != http.MethodGet && !strings.Contains(h.query, "dryRun=All") {
				t.Errorf("%s: %s %s?%s", name, h.method, h.path, h.query)
			}
		}
		if s.writes.Begun() != 0 || s.audit.Len() > 0 || len(s.results) > 0 {
			t.Errorf("%s: a preview counts as a change: %s", name, s.audit.String())
		}
	}
}

func TestDiffOf(t *testing.T) {
	for _, c := range []struct {
		name, was, is string
		hides         bool
		want          []string
	}{
		{name: "nothing but what the API server keeps", was: `{"kind":"A","metadata":{"resourceVersion":"1","generation":1}}`, is: `{"metadata":{"resourceVersion":"2"}}`},
		{name: "members", was: `{"a":1,"b":{"c":"x"},"gone":true}`, is: `{"a":2,"b":{"c":"x","d":null}}`,
			want: []string{"~ a: 1 → 2", "+ b.d: null", "- gone: true"}},
		{name: "a new object", is: `{"metadata":{"name":"a","labels":{"app.kubernetes.io/name":"b"}},"empty":{}}`,
			want: []string{"+ empty: {}", `+ metadata.labels["app.kubernetes.io/name"]: "b"`, `+ metadata.name: "a"`}},
		{name: "lists", was: `{"l":[{"a":1},2]}`, is: `{"l":[{"a":3},2,4]}`, want: []string{"~ l[0].a: 1 → 3", "+ l[2]: 4"}},
		{name: "another kind of value", was: `{"a":{"b":1}}`, is: `{"a":[1]}`, want: []string{`~ a: {"b":1} → [1]`}},
		{name: "large numbers", was: `{"a":9007199254740993}`, is: `{"a":9007199254740992}`, want: []string{"~ a: 9007199254740993 → 9007199254740992"}},
		{name: "no values", was: `{"data":{"p":"tiger"}}`, is: `{"data":{"p":"lion","q":"x"}}`, hides: true, want: []string{"~ data.p", "+ data.q"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var was json.RawMessage
			if c.was != "" {
				was = json.RawMessage(c.was)
			}
			got, err := diffOf(was, json.RawMessage(c.is), c.hides)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestDiffOfIsBounded(t *testing.T) {
	var members []string
	for i := range 100 {
		members = append(members, fmt.Sprintf(`"m%02d":%q`, i, strings.Repeat("x", 10000)))
	}
	got, err := diffOf(nil, json.RawMessage("{"+strings.Join(members, ",")+"}"), false)
	if err != nil || len(got) != maxDiff+1 || got[maxDiff] != "and 36 more" || len(strings.Join(got, "")) > maxDiff*500 {
		t.Errorf("%d lines, the last %q, %v", len(got), got[len(got)-1], err)
	}
}
