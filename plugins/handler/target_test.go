package handler

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTarget(t *testing.T) {
	ev := Event{Resource: Resource{"apps", "v1", "deployments"}, Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7"}
	own := ev.Target() // informd fills in UID and ResourceVersion
	other := Target{Resource: Resource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "web-0", UID: "u", ResourceVersion: "8"}
	must := func(a Action, err error) Action {
		if err != nil {
			t.Error(err)
		}
		return a
	}
	type spec struct {
		Replicas int `json:"replicas"`
	}
	for _, c := range []struct {
		why  string
		got  Action
		want Action
	}{
		{"apply", must(own.Apply(map[string]any{"spec": spec{3}})), Action{Verb: ActionApply, Object: json.RawMessage(`{"spec":{"replicas":3}}`)}},
		{"create", must(own.Create(json.RawMessage(`{"spec":{}}`))), Action{Verb: ActionCreate, Object: json.RawMessage(`{"spec":{}}`)}},
		{"a merge patch", must(own.Patch(` {"spec":null} `)), Action{Verb: ActionPatch, Patch: json.RawMessage(`{"spec":null}`)}},
		{"a JSON patch", must(own.Patch([]byte(` [{"op":"remove","path":"/spec"}]`))), Action{Verb: ActionPatch, PatchType: JSONPatch, Patch: json.RawMessage(`[{"op":"remove","path":"/spec"}]`)}},
		{"a list in Go", must(own.Patch([]map[string]string{{"op": "remove", "path": "/spec"}})), Action{Verb: ActionPatch, PatchType: JSONPatch, Patch: json.RawMessage(`[{"op":"remove","path":"/spec"}]`)}},
		{"delete", own.Delete(), Action{Verb: ActionDelete}},
		{"event", own.Event("Seen", "It is."), Action{Verb: ActionEvent, Reason: "Seen", Message: "It is."}},
	} {
		c.want.Resource, c.want.Namespace, c.want.Name = ev.Resource, "shop", "web"
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.why, diff)
		}
		if err := c.got.Validate(); err != nil {
			t.Errorf("%s: %v", c.why, err)
		}
	}
	want := Action{Verb: ActionDelete, Resource: other.Resource, Namespace: "shop", Name: "web-0", UID: "u", ResourceVersion: "8"}
	if diff := cmp.Diff(want, other.Delete()); diff != "" {
		t.Errorf("another object (-want +got)\n%s", diff)
	}
}

func TestTargetRefuses(t *testing.T) {
	web := Target{Resource: Resource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "web-0"}
	refused := func(_ Action, err error) error { return err }
	for want, err := range map[string]error{
		"rejected: apply v1/pods shop/web-0: the object: is no JSON object":                              refused(web.Apply("hush")),
		"rejected: create v1/pods shop/web-0: it has no object":                                          refused(web.Create("")),
		"rejected: patch v1/pods shop/web-0: the patch: is no JSON object":                               refused(web.Patch(nil)),
		"rejected: patch v1/pods shop/web-0: operation 1 of the patch is no object with op and path":     refused(web.Patch(`["hush"]`)),
		"rejected: apply v1/pods shop/web-0: json: unsupported value: NaN":                               refused(web.Apply(math.NaN())),
		"rejected: apply v1/pods shop/web-0: metadata.name is not the action's: leave it out":            refused(web.Apply(`{"metadata":{"name":"db"}}`)),
		"rejected: create v1/pods web-0: what is to be created has neither uid nor resourceVersion":      refused(Target{Resource: web.Resource, Name: "web-0", UID: "u"}.Create("{}")),
		"rejected: patch v1/pods: it has no name":                                                        refused(Target{Resource: web.Resource}.Patch("{}")),
		"rejected: apply v1/pods shop/web-0: the object has 1572873 bytes; the API server takes 1572864": refused(web.Apply(`{"a": "` + strings.Repeat("x", maxObject) + `"}`)),
	} {
		if err == nil || err.Error() != want || !errors.Is(err, ErrReject) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestTargetString(t *testing.T) {
	for want, target := range map[string]Target{
		"apps/v1/deployments shop/web": {Resource: Resource{"apps", "v1", "deployments"}, Namespace: "shop", Name: "web"},
		"v1/nodes n":                   {Resource: Resource{Version: "v1", Resource: "nodes"}, Name: "n"},
		"web":                          {Name: "web"},
		"":                             {},
	} {
		if got := target.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
