package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// Both sides mean the same by an action.
func TestActions(t *testing.T) {
	target := handler.Action{
		Resource: handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: "shop", Name: "web",
		UID: "u", ResourceVersion: "7",
	}
	with := func(change func(*handler.Action)) handler.Action {
		a := target
		change(&a)
		return a
	}
	for _, a := range []handler.Action{
		with(func(a *handler.Action) {
			a.Verb, a.Object, a.Subresource = handler.ActionApply, json.RawMessage(`{"spec":{}}`), "status"
		}),
		with(func(a *handler.Action) {
			a.Verb, a.Patch, a.PatchType, a.Subresource = handler.ActionPatch, json.RawMessage(`[]`), handler.JSONPatch, "status"
		}),
		with(func(a *handler.Action) { a.Verb, a.Object = handler.ActionCreate, json.RawMessage(`{}`) }),
		with(func(a *handler.Action) { a.Verb = handler.ActionDelete }),
		with(func(a *handler.Action) {
			a.Verb, a.Reason, a.Message, a.Warning = handler.ActionEvent, "Grew", "by two", true
		}),
	} {
		p, err := FromAction(a)
		if err != nil {
			t.Errorf("%s: %v", a.Verb, err)
			continue
		}
		if got, ok := ToAction(p); !ok || cmp.Diff(a, got) != "" {
			t.Errorf("%s: %v\n%s", a.Verb, ok, cmp.Diff(a, got))
		}
	}
	if _, err := FromAction(handler.Action{Verb: "explode"}); err == nil || !strings.Contains(err.Error(), `unknown verb "explode"`) {
		t.Errorf("got %v", err)
	}
	if _, ok := ToAction(&handlerpb.Action{}); ok {
		t.Error("knows an action of no kind")
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aé", 2, "a"}, {"a\xffb", 10, "a\uFFFDb"}, {"\xff", 2, ""}, {"", 0, ""},
	} {
		if got := Text(c.in, c.n); got != c.want {
			t.Errorf("Text(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}
