package action

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
)

// Every action that passes Validate becomes a body that adds the object's identity. The rest is as
// the handler wrote it.
func FuzzBodies(f *testing.F) {
	f.Add(`{"data":{"a":"b"},"metadata":{"labels":{"x":"y"},"name":"web-0"}}`, false)
	f.Add(`{"apiVersion":"v1","kind":"","metadata":{"uid":"u","uid":null}}`, false)
	f.Add(`{"Metadata":{"name":"x"},"metadata":{},"metadata":{"resourceVersion":""}}`, false)
	f.Add(`[{"op":"add","path":"/a","value":9007199254740993},{"op":"test","path":""}]`, true)
	f.Fuzz(func(t *testing.T, body string, operations bool) {
		from := seen{"u", "4"}
		a := handler.Action{
			Verb: handler.ActionPatch, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", UID: "u", ResourceVersion: "4",
			Object: json.RawMessage(body), Patch: json.RawMessage(body),
		}
		if operations {
			a.PatchType = handler.JSONPatch
			if a.Validate() != nil {
				return
			}
			got, _, err := patchBody(a, from)
			var ops, was []any
			if err != nil || json.Unmarshal(got, &ops) != nil || json.Unmarshal([]byte(body), &was) != nil {
				t.Fatalf("%s: %v", got, err)
			}
			tests := []any{
				map[string]any{"op": "test", "path": "/metadata/uid", "value": "u"},
				map[string]any{"op": "test", "path": "/metadata/resourceVersion", "value": "4"},
			}
			if diff := cmp.Diff(append(tests, was...), ops); diff != "" {
				t.Error(diff)
			}
			return
		}
		if a.Validate() == nil {
			got, _, err := patchBody(a, from)
			sameButFor(t, body, got, err, nil, map[string]any{"uid": "u", "resourceVersion": "4"})
		}
		if a.Verb = handler.ActionApply; a.Validate() == nil {
			got, err := objectBody(a, "Pod", from)
			if err != nil {
				return // the body has another kind
			}
			sameButFor(t, body, got, err, map[string]any{"apiVersion": "v1", "kind": "Pod"},
				map[string]any{"uid": "u", "resourceVersion": "4", "name": "web-0", "namespace": "shop"})
		}
	})
}

func sameButFor(t *testing.T, body string, got []byte, err error, top, metadata map[string]any) {
	t.Helper()
	var is, was map[string]any
	if err != nil || json.Unmarshal(got, &is) != nil || json.Unmarshal([]byte(body), &was) != nil {
		t.Fatalf("%s: %v", got, err)
	}
	maps.Copy(was, top)
	m, _ := was["metadata"].(map[string]any)
	if m == nil {
		m = make(map[string]any)
	}
	maps.Copy(m, metadata)
	was["metadata"] = m
	if diff := cmp.Diff(was, is); diff != "" {
		t.Error(diff)
	}
}

// The text of a failure is bounded and fit for a log, whatever the API server answered.
func FuzzAnswers(f *testing.F) {
	f.Add(422, []byte(`{"kind":"Status","code":422,"message":"x","details":{"causes":[{"field":"a","message":"Invalid value: \"x\": y"}]}}`))
	f.Add(200, []byte(`{"kind":"Status","details":{"uid":"u"}}`))
	f.Add(404, []byte(`{"kind":"Status","details":{"name":"a","kind":"namespaces","retryAfterSeconds":99999999}}`))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		a := answer{code: code}
		_ = a.read(body)
		a.status = statusIn(body)
		fail := classify(a)
		if text := fail.Error(); len(text) > maxText+256 || text != printable.Line(text, maxText+256) {
			t.Errorf("%d bytes: %q", len(text), text)
		}
		if fail.after < 0 || fail.after > maxRetryAfter {
			t.Errorf("after %v", fail.after)
		}
	})
}
