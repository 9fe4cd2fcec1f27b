package handler

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestActionValidate(t *testing.T) {
	pods := Resource{Version: "v1", Resource: "pods"}
	apply := Action{Verb: ActionApply, Resource: pods, Namespace: "shop", Name: "web-0", Object: json.RawMessage(`{}`)}
	patch := Action{Verb: ActionPatch, Resource: pods, Namespace: "shop", Name: "web-0", Patch: json.RawMessage(`{}`)}
	event := Action{Verb: ActionEvent, Resource: pods, Namespace: "shop", Name: "web-0", Reason: "Seen"}
	with := func(a Action, change func(*Action)) Action {
		change(&a)
		return a
	}
	object := func(text string) Action { return with(apply, func(a *Action) { a.Object = json.RawMessage(text) }) }
	merge := func(text string) Action { return with(patch, func(a *Action) { a.Patch = json.RawMessage(text) }) }
	operations := func(text string) Action {
		return with(patch, func(a *Action) { a.Patch, a.PatchType = json.RawMessage(text), JSONPatch })
	}
	for _, c := range []struct {
		why    string
		action Action
		wrong  string // empty: nothing is
	}{
		{"least apply", apply, ""},
		{"an object that says what the action says", object(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop"}}`), ""},
		{"names that are null or empty are left out", object(`{"apiVersion":"","metadata":{"name":null,"namespace":"","generateName":""}}`), ""},
		{"a group", with(object(`{"apiVersion":"apps/v1"}`), func(a *Action) { a.Resource = Resource{"apps", "v1", "deployments"} }), ""},
		{"a CustomResourceDefinition's name", with(apply, func(a *Action) { a.Name, a.Namespace = "widgets.example.com", "" }), ""},
		{"an RBAC name", with(apply, func(a *Action) { a.Name, a.Namespace = "system:node", "" }), ""},
		{"status", with(apply, func(a *Action) { a.Subresource = "status" }), ""},
		{"merge patch", merge(`{"metadata":{"labels":{"a":null}}}`), ""},
		{"merge patch by name", with(patch, func(a *Action) { a.PatchType = MergePatch }), ""},
		{"JSON patch", operations(`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`), ""},
		{"JSON patch that tests a version", operations(`[{"op":"test","path":"/metadata/resourceVersion","value":"5"}]`), ""},
		{"JSON patch that makes one up", operations(`[{"op":"replace","path":"/metadata/resourceVersion","value":"5"}]`), "ResourceVersion"},
		{"JSON patch without operations", operations(`[]`), ""},
		{"delete", with(patch, func(a *Action) { a.Verb = ActionDelete }), ""},
		{"event", event, ""},
		{"the longest reason", with(event, func(a *Action) { a.Reason = strings.Repeat("R", 128) }), ""},

		{"no verb", with(apply, func(a *Action) { a.Verb = "" }), "verbs"},
		{"another verb", with(apply, func(a *Action) { a.Verb = "update" }), "verbs"},
		{"no version", with(apply, func(a *Action) { a.Resource.Version = "" }), "version"},
		{"no resource", with(apply, func(a *Action) { a.Resource.Resource = "" }), "version"},
		{"a kind for a resource", with(apply, func(a *Action) { a.Resource.Resource = "Pod" }), "lower case"},
		{"a subresource in the resource", with(apply, func(a *Action) { a.Resource.Resource = "pods/exec" }), "apart"},
		{"a group that is a path", with(apply, func(a *Action) { a.Resource.Group = "apps/v1" }), "group"},
		{"a group of nothing but dots", with(apply, func(a *Action) { a.Resource.Group = ".." }), "group"},
		{"no name", with(apply, func(a *Action) { a.Name = "" }), "no name"},
		{"a name that is a path", with(apply, func(a *Action) { a.Name = "web-0/status" }), "the name"},
		{"a name that would be one", with(apply, func(a *Action) { a.Name = "web-0%2fstatus" }), "the name"},
		{"a folder above", with(apply, func(a *Action) { a.Name = ".." }), "the name"},
		{"a namespace that is a path", with(apply, func(a *Action) { a.Namespace = "shop/pods/x" }), "namespace"},
		{"another subresource", with(patch, func(a *Action) { a.Subresource = "scale" }), "subresource"},
		{"status of a deletion", with(patch, func(a *Action) { a.Verb, a.Subresource = ActionDelete, "status" }), "subresource"},
		{"a uid to create", with(apply, func(a *Action) { a.Verb, a.UID = ActionCreate, "u" }), "uid"},
		{"a version to create", with(apply, func(a *Action) { a.Verb, a.ResourceVersion = ActionCreate, "1" }), "resourceVersion"},

		{"no object", object(""), "no object"},
		{"null", object("null"), "no JSON object"},
		{"a list", object("[]"), "no JSON object"},
		{"broken JSON", object(`{"data":{`), "no JSON object"},
		{"something behind", object(`{} {}`), "no JSON object"},
		{"too large", object(`{"x":"` + strings.Repeat("x", maxObject) + `"}`), "bytes"},
		{"metadata that is none", object(`{"metadata":null}`), "metadata"},
		{"another apiVersion", object(`{"apiVersion":"apps/v1"}`), "apiVersion must be v1"},
		{"a kind that is none", object(`{"kind":7}`), "kind"},
		{"another name", object(`{"metadata":{"name":"db-0"}}`), "metadata.name"},
		{"a name that is none", object(`{"metadata":{"name":7}}`), "metadata.name"},
		{"another namespace", object(`{"metadata":{"namespace":"kube-system"}}`), "metadata.namespace"},
		{"a uid that the action does not have", object(`{"metadata":{"uid":"u"}}`), "metadata.uid"},
		{"a version that the action does not have", object(`{"metadata":{"resourceVersion":"5"}}`), "metadata.resourceVersion"},
		{"a name to be made up", object(`{"metadata":{"generateName":"web-"}}`), "generateName"},
		{"the last of two names counts", object(`{"metadata":{"name":"web-0","name":"db-0"}}`), "metadata.name"},

		{"no patch", merge(""), "no patch"},
		{"a merge patch that is a list", merge("[]"), "no JSON object"},
		{"a merge patch of another name", merge(`{"metadata":{"name":"db-0"}}`), "metadata.name"},
		{"a merge patch that takes the metadata away", merge(`{"metadata":null}`), "metadata"},
		{"a JSON patch that is an object", operations(`{}`), "list of operations"},
		{"a JSON patch that is null", operations(`null`), "list of operations"},
		{"an operation that is null", operations(`[null]`), "operation 1"},
		{"an operation without path", operations(`[{"op":"add","path":"/a","value":1},{"op":"remove"}]`), "operation 2"},
		{"a strategic patch", with(patch, func(a *Action) { a.PatchType = "application/strategic-merge-patch+json" }), "neither"},
		{"a patch too large", merge(`{"x":"` + strings.Repeat("x", maxObject) + `"}`), "bytes"},

		{"no reason", with(event, func(a *Action) { a.Reason = "" }), "CamelCase"},
		{"a reason of two words", with(event, func(a *Action) { a.Reason = "Was seen" }), "CamelCase"},
		{"a reason too long", with(event, func(a *Action) { a.Reason = strings.Repeat("R", 129) }), "128"},
	} {
		t.Run(c.why, func(t *testing.T) {
			err := c.action.Validate()
			switch {
			case c.wrong == "" && err != nil:
				t.Error(err)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
}

// Errors about an action quote nothing of its object.
func TestActionValidateQuotesNoContent(t *testing.T) {
	for _, text := range []string{`{"data":hush}`, `"hush"`, `{"metadata":"hush"}`, `{"metadata":{"name":"hush"}}`, `{"kind":["hush"]}`, `{"apiVersion":"hush"}`} {
		for _, a := range []Action{
			{Verb: ActionApply, Object: json.RawMessage(text)}, {Verb: ActionPatch, Patch: json.RawMessage(text)},
			{Verb: ActionPatch, PatchType: JSONPatch, Patch: json.RawMessage("[" + text + "]")},
		} {
			a.Resource, a.Name = Resource{Version: "v1", Resource: "secrets"}, "s"
			if err := a.Validate(); err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("%s of %s: %v", a.Verb, text, err)
			}
		}
	}
}

func FuzzActionValidate(f *testing.F) {
	f.Add("apply", `{"metadata":{"name":"x"}}`, "", "x")
	f.Add("patch", `[{"op":"add","path":"/a"}]`, JSONPatch, "x")
	f.Fuzz(func(t *testing.T, verb, body, patchType, name string) {
		a := Action{Verb: verb, Resource: Resource{Version: "v1", Resource: "pods"}, Namespace: "n", Name: name, PatchType: patchType}
		a.Object, a.Patch = json.RawMessage(body), json.RawMessage(body)
		if a.Validate() != nil {
			return
		}
		if strings.ContainsAny(name, "/%") || name == "" {
			t.Errorf("name %q passes", name)
		}
		if (verb == ActionApply || verb == ActionCreate) && !json.Valid([]byte(body)) {
			t.Errorf("%q passes for an object", body)
		}
	})
}
