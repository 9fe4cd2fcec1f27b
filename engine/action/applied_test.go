package action

import (
	"errors"
	"net/http"
	"testing"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Only a whole list without the object says that it does not exist.
func TestExists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		exists, ok bool
	}{
		{"listed", `{"kind":"PartialObjectMetadataList","items":[{"metadata":{"name":"a"}}]}`, true, true},
		{"not listed", `{"kind":"PartialObjectMetadataList","items":[]}`, false, true},
		{"as its own kind", `{"kind":"PodList","items":[]}`, false, true},
		{"an empty page of several", `{"kind":"PodList","metadata":{"continue":"x"},"items":[]}`, false, false},
		{"no list", `{"kind":"Status","status":"Success"}`, false, false},
	} {
		s := newServer(t, answers(200, c.body))
		exists, err := s.Exists(t.Context(), pods, delta.Key{Namespace: "shop", Name: "a"})
		if exists != c.exists || err == nil != c.ok {
			t.Errorf("%s: %v, %v", c.name, exists, err)
		}
	}
}

// A resource that is not served is told apart from one without objects. A prune of it has nothing to
// do, and says why.
func TestResourceThatIsNotServed(t *testing.T) {
	t.Parallel()
	page := answers(404, "404 page not found")
	const missing = "the server could not find the requested resource"
	for why, c := range map[string]struct {
		answer    func(http.ResponseWriter)
		notServed bool
	}{
		"the resource is gone":          {answers(404, status(404, "NotFound", missing, "")), true},
		"its group is gone":             {page, true},
		"a Status that names something": {answers(404, status(404, "NotFound", missing, `"name":"x","kind":"y"`)), true},
		"no objects":                    {answers(200, `{"kind":"PodList","items":[]}`), false},
		"trouble":                       {answers(500, status(500, "InternalError", "no", "")), false},
		"forbidden":                     {answers(403, status(403, "Forbidden", "no", "")), false},
	} {
		s := newServer(t, c.answer)
		found, err := s.Applied(t.Context(), By{Rule: "r"}, pods, "of=x")
		if IsNotServed(err) != c.notServed || len(found) > 0 {
			t.Errorf("%s: %v", why, err)
		}
		ended, err := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil).Prune(t.Context(), pods, "of=x", nil)
		if (ended.Why == CauseNotServed) != c.notServed || c.notServed && err != nil {
			t.Errorf("%s: a prune has %+v, %v", why, ended, err)
		}
	}
	unserved := Request{Action: handler.Action{
		Verb: handler.ActionDelete, Resource: handler.Resource{Group: "gone.example.com", Version: "v1", Resource: "things"}, Name: "a",
	}}
	_, err := newServer(t, page).Begin(t.Context(), By{Rule: "r"}, anEvent(), nil).One(t.Context(), unserved)
	if !IsNotServed(err) || IsNotServed(errors.New("x")) || IsNotServed(nil) {
		t.Errorf("a deletion: %v", err)
	}
}
