package handlertest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/informd/informd/plugins/handler"
)

// What is wrong with an action is said in words; what is right passes.
func TestMalformed(t *testing.T) {
	pods := handler.Resource{Version: "v1", Resource: "pods"}
	deployments := handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"}
	large := json.RawMessage(`{"data":"` + strings.Repeat("x", maxObject) + `"}`)
	for _, c := range []struct {
		action handler.Action
		want   string // empty: nothing is wrong
	}{
		{handler.Action{Verb: "delete", Resource: pods, Namespace: "shop", Name: "web-0"}, ""},
		{handler.Action{Verb: "apply", Resource: deployments, Namespace: "shop", Name: "web", Object: json.RawMessage(`{"spec":{}}`)}, ""},
		{handler.Action{Verb: "create", Resource: deployments, Namespace: "shop", Name: "web", Object: json.RawMessage(
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}`)}, ""},
		{handler.Action{Verb: "patch", Resource: pods, Name: "web", Patch: json.RawMessage(`{"metadata":{"labels":null}}`)}, ""},
		{handler.Action{Verb: "patch", Resource: pods, Name: "web", PatchType: "application/json-patch+json", Patch: json.RawMessage(`[{"op":"remove","path":"/a"}]`)}, ""},
		{handler.Action{Verb: "event", Resource: pods, Name: "web", Reason: "Paged", Message: "on call"}, ""},

		{handler.Action{Verb: "delete", Resource: pods}, "it names no object"},
		{handler.Action{Verb: "delete", Resource: pods, Name: ".."}, "nothing can be called"},
		{handler.Action{Verb: "delete", Resource: pods, Name: "a/../b"}, "nothing can be called"},
		{handler.Action{Verb: "delete", Name: "web"}, "want as the API server names it"},
		{handler.Action{Verb: "delete", Resource: handler.Resource{Version: "v1", Resource: "Pod"}, Name: "web"}, "want as the API server names it"},
		{handler.Action{Verb: "delete", Resource: handler.Resource{Version: "apps/v1", Resource: "deployments"}, Name: "web"}, "want as the API server names it"},
		{handler.Action{Verb: "scale", Resource: pods, Name: "web"}, `no verb "scale"`},
		{handler.Action{Verb: "apply", Resource: pods, Name: "web"}, "no object of a cluster as JSON"},
		{handler.Action{Verb: "apply", Resource: pods, Name: "web", Object: json.RawMessage(`null`)}, "no object of a cluster as JSON"},
		{handler.Action{Verb: "apply", Resource: pods, Name: "web", Object: json.RawMessage(`[]`)}, "no object of a cluster as JSON"},
		{handler.Action{Verb: "apply", Resource: pods, Name: "web", Object: large}, "want at most"},
		{handler.Action{Verb: "apply", Resource: deployments, Name: "web", Object: json.RawMessage(`{"apiVersion":"v1"}`)}, `has apiVersion "v1", want "apps/v1" or none`},
		{handler.Action{Verb: "apply", Resource: pods, Name: "web", Object: json.RawMessage(`{"metadata":{"name":"other"}}`)}, `has metadata.name "other", want "web"`},
		{handler.Action{Verb: "apply", Resource: pods, Namespace: "shop", Name: "web", Object: json.RawMessage(`{"metadata":{"namespace":"pay"}}`)}, "has metadata.namespace"},
		{handler.Action{Verb: "create", Resource: pods, Name: "web", Object: json.RawMessage(`{"metadata":{"generateName":"web-"}}`)}, "has metadata.generateName"},
		{handler.Action{Verb: "patch", Resource: pods, Name: "web", Patch: json.RawMessage(`[]`)}, "none of type application/merge-patch+json"},
		{handler.Action{Verb: "patch", Resource: pods, Name: "web", Patch: json.RawMessage(`null`)}, "none of type application/merge-patch+json"},
		{handler.Action{Verb: "patch", Resource: pods, Name: "web", PatchType: "application/json-patch+json", Patch: json.RawMessage(`{}`)}, "none of type application/json-patch+json"},
		{handler.Action{Verb: "patch", Resource: pods, Name: "web", PatchType: "application/json-patch+json", Patch: json.RawMessage(`[{}]`)}, "operation 1 has no op"},
		{handler.Action{Verb: "patch", Resource: pods, Name: "web", PatchType: "application/strategic-merge-patch+json", Patch: json.RawMessage(`{}`)}, "its type is"},
		{handler.Action{Verb: "event", Resource: pods, Name: "web", Message: "on call"}, "want CamelCase"},
		{handler.Action{Verb: "event", Resource: pods, Name: "web", Reason: "it broke"}, "want CamelCase"},
		{handler.Action{Verb: "event", Resource: pods, Name: "web", Reason: "Paged", Message: strings.Repeat("x", 1025)}, "want at most 1024"},
	} {
		err := malformed(c.action)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %v: got %v, want %q", c.action.Verb, c.action.Resource, err, c.want)
		}
	}
}
