package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/plugins/handler"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

func TestPolicy(t *testing.T) {
	policy := Policy{Handler: "oncall", Grants: []Grant{
		{Resource: pods, Verbs: []string{"patch", "delete"}, Namespaces: []string{"shop", "pay"}, Names: []string{"web-*", "db-[0-9]"}, At: "rules.yaml:12:5"},
		{Resource: deployments, Subresource: "status", Verbs: []string{"apply"}},
		{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Verbs: []string{"event", "patch"}},
		{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Verbs: []string{"patch"}, Namespaces: []string{"shop"}},
	}}
	on := func(verb string, r schema.GroupVersionResource, namespace, name string) handler.Action {
		a := handler.Action{Verb: verb, Resource: handler.Resource(r), Namespace: namespace, Name: name}
		switch verb {
		case handler.ActionPatch:
			a.Patch = json.RawMessage(`{}`)
		case handler.ActionApply, handler.ActionCreate:
			a.Object = json.RawMessage(`{}`)
		case handler.ActionEvent:
			a.Reason = "Seen"
		}
		return a
	}
	status := on("apply", deployments, "any", "thing")
	status.Subresource = "status"
	podStatus := on("patch", pods, "shop", "web-0")
	podStatus.Subresource = "status"
	beta := pods
	beta.Version = "v1beta1"
	for _, c := range []struct {
		why    string
		action handler.Action
		needs  string // empty if the policy allows it
	}{
		{"as granted", on("delete", pods, "shop", "web-0"), ""},
		{"another namespace, another pattern", on("patch", pods, "pay", "db-1"), ""},
		{"the subresource", status, ""},
		{"a verb on a cluster-scoped resource", on("event", schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "", "n1"), ""},
		{"another verb", on("apply", pods, "shop", "web-0"),
			`{resource: v1/pods, verbs: [apply], namespaces: [shop]}; rules.yaml:12:5 grants v1/pods, but only with the verbs [patch, delete]`},
		{"another namespace", on("delete", pods, "kube-system", "web-0"),
			`{resource: v1/pods, verbs: [delete], namespaces: [kube-system]}; rules.yaml:12:5 grants v1/pods, but only with the namespaces [shop, pay]`},
		{"another name", on("delete", pods, "shop", "db-10"), "; rules.yaml:12:5 grants v1/pods, but only with the names [web-*, db-[0-9]]"},
		{"no namespace where one is needed", on("delete", pods, "", "web-0"), "{resource: v1/pods, verbs: [delete]}; rules.yaml"},
		{"a namespace for what has none: the grant is for shop's", on("patch", schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", "shop"), "verbs: [patch]}"},
		{"another version", on("delete", beta, "shop", "web-0"), "{resource: v1beta1/pods, verbs: [delete], namespaces: [shop]}"},
		{"another group", on("delete", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "pods"}, "shop", "web-0"), "{resource: example.com/v1/pods,"},
		{"a grant for the object is none for its status", podStatus, "{resource: v1/pods/status, verbs: [patch], namespaces: [shop]}"},
		{"a grant for the status is none for the object", on("apply", deployments, "any", "thing"), "{resource: apps/v1/deployments, verbs: [apply], namespaces: [any]}"},
		{"an Event about what is patched", on("event", pods, "shop", "web-0"), "{resource: v1/pods, verbs: [event], namespaces: [shop]}"},
	} {
		t.Run(c.why, func(t *testing.T) {
			allowed := on("delete", pods, "shop", "web-0")
			err := policy.Check(&handler.Event{}, []handler.Action{allowed, c.action})
			switch {
			case c.needs == "" && err != nil:
				t.Error(err)
			case c.needs == "":
			case err == nil || !errors.Is(err, handler.ErrReject):
				t.Errorf("got %v, want the policy to reject the answer", err)
			case !strings.Contains(err.Error(), c.needs) || !strings.Contains(err.Error(), `actions[1]: `+what(c.action)+` is not allowed for handler "oncall": spec.access.write needs {`):
				t.Errorf("%v, want %q", err, c.needs)
			}
			if err := (Policy{}).Check(&handler.Event{}, []handler.Action{c.action}); !errors.Is(err, handler.ErrReject) {
				t.Errorf("got %v, want an empty policy to reject every action", err)
			}
		})
	}
	if err := policy.Check(&handler.Event{}, nil); err != nil {
		t.Errorf("the policy rejects an answer without actions: %v", err)
	}
}

// A name that matches a pattern must not be able to address something else.
func TestPolicyRefusesNamesThatEscape(t *testing.T) {
	policy := Policy{Handler: "h", Grants: []Grant{{Resource: pods, Verbs: []string{"delete"}, Names: []string{"*"}}}}
	for _, name := range []string{"", ".", "..", "web-0/eviction", "../secrets/token", "web-0%2Feviction", strings.Repeat("x", 254)} {
		a := handler.Action{Verb: handler.ActionDelete, Resource: handler.Resource(pods), Namespace: "shop", Name: name}
		if err := policy.Check(&handler.Event{}, []handler.Action{a}); !errors.Is(err, handler.ErrReject) {
			t.Errorf("name %q: %v", name, err)
		}
		a.Name, a.Namespace = "web-0", name
		if err := policy.Check(&handler.Event{}, []handler.Action{a}); name != "" && !errors.Is(err, handler.ErrReject) {
			t.Errorf("namespace %q: %v", name, err)
		}
	}
}

func TestDenialsAreAudited(t *testing.T) {
	var log bytes.Buffer
	var done []Done
	x, err := New(&rest.Config{Host: "https://example.invalid"}, nil, nil, time.Now, Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Observer: func(d Done) { done = append(done, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ev := &handler.Event{ID: "r/u/added/1", Attempt: 3}
	denied := handler.Action{Verb: handler.ActionDelete, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0"}
	if err := x.Check(Policy{Handler: "h"}, By{Rule: "r", Handler: "h"}, ev, []handler.Action{denied}); !errors.Is(err, handler.ErrReject) {
		t.Error(err)
	}
	malformed := handler.Action{Verb: "explode\n", Resource: handler.Resource(pods), Name: "x"}
	if err := x.Check(Policy{Handler: "h"}, By{Rule: "r", Handler: "h"}, ev, []handler.Action{malformed}); !errors.Is(err, handler.ErrReject) {
		t.Error(err)
	}
	if len(done) != 2 || done[0].Result != Denied || done[1].Result != Rejected || done[0].Attempt != 3 || done[0].Delivery != ev.ID {
		t.Errorf("observed %+v", done)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	want := "level=WARN msg=action rule=r handler=h verb=delete resource=v1/pods namespace=shop name=web-0 result=denied code=0"
	if len(lines) != 2 || !strings.Contains(lines[0], want) {
		t.Errorf("audit:\n%s", &log)
	}
}
