package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/handler"
)

func TestRetries(t *testing.T) {
	t.Parallel()
	answers := []Answer{{Retry: "busy"}, {RetryAfter: time.Minute}, {Retry: "busy"}, {}}
	b := simulation(t, Options{Answer: func(Event) Answer {
		next := answers[0]
		answers = answers[1:]
		return next
	}}, sizes, recorder, ruleOf("r", ""))
	b.put("a", "1")
	b.expect(time.Hour, "r added a", "r added a #2 after 1s", "r added a #3 after 1m1s", "r added a #4 after 1m3s")
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{Answer: func(e Event) Answer {
		switch e.Event.Name {
		case "rejected":
			return Answer{Reject: "no"}
		case "failing":
			return Answer{Retry: "never"}
		}
		return Answer{}
	}}, sizes, "kind: Handler, metadata: {name: h}, spec: {builtin: log, retry: {attempts: 3, backoff: 10s}}", ruleOf("r", ""))
	b.put("rejected", "1")
	b.put("failing", "1")
	b.put("well", "1")
	b.expect(time.Hour, "r added rejected, dead: rejected: no", "r added failing", "r added well",
		"r added failing #2 after 10s", "r added failing #3 after 30s, dead: never")
	b.must(b.Restart(Restart{}))
	b.expect(time.Hour)
	if status, ok := b.Status(); !ok || status.DeadLetters.Letters != 2 {
		t.Errorf("status %+v", status.DeadLetters)
	}
}

// A burst of changes while the handler fails is merged, and comes with the retry.
func TestMergingWhileARetryWaits(t *testing.T) {
	t.Parallel()
	first := true
	b := simulation(t, Options{Answer: func(Event) Answer {
		if first {
			first = false
			return Answer{RetryAfter: time.Minute}
		}
		return Answer{}
	}}, sizes, recorder, ruleOf("r", ", payload: object.data.size"))
	b.put("a", "1")
	b.expect(0, `r added a "1"`)
	for n := range 5 {
		b.put("a", fmt.Sprint(n))
	}
	b.expect(time.Hour, `r added a "4" after 1m0s`)
}

func TestActionsOfAnswers(t *testing.T) {
	t.Parallel()
	patch := handler.Action{
		Verb: handler.ActionPatch, Resource: handler.Resource{Version: "v1", Resource: "configmaps"}, Namespace: "shop", Name: "a",
		Patch: json.RawMessage(`{"data":{"seen":"yes"}}`),
	}
	other := patch
	other.Name = "other"
	b := simulation(t, Options{Answer: func(e Event) Answer {
		if e.Event.Event == "deleted" {
			return Answer{Actions: []handler.Action{other}}
		}
		return Answer{Actions: []handler.Action{patch}}
	}}, sizes, `kind: Handler, metadata: {name: h}, spec: {builtin: exec, config: {command: ["true"], answers: true}, access: {write: [{resource: v1/configmaps, verbs: [patch], names: [a]}]}}`,
		ruleOf("r", ""))
	b.put("a", "1")
	b.expect(0, "r added a, patch a")
	b.must(b.Delete("maps", "shop", "a"))
	b.must(b.Advance(0))
	if all := b.Events(); len(all) != 1 || !strings.Contains(all[0].Dead, `is not allowed for handler "h"`) || len(all[0].Actions) != 0 {
		t.Errorf("events %+v", all)
	}
}

// example compiles the manifests of an example.
func example(t *testing.T, path string) *plan.Plan {
	t.Helper()
	text, err := os.ReadFile("../../examples/" + path)
	if err != nil {
		t.Fatal(err)
	}
	c, mistakes := config.Parse([]config.File{{Path: path, Data: text}})
	p, more := plan.Compile(c)
	for _, m := range append(mistakes, more...) {
		t.Fatal(m)
	}
	return p
}

// A rule with actions, prune, Secrets, and a lookup into another source.
func TestSecretsEverywhere(t *testing.T) {
	t.Parallel()
	p := example(t, "actions/secrets-everywhere.yaml")
	s, err := New(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := &bench{s, t}
	source := func(resource string) string {
		for _, s := range p.Sources {
			if s.Resource.Resource == resource {
				return s.Name
			}
		}
		t.Fatalf("no source of %s", resource)
		return ""
	}
	namespace := func(name string) {
		t.Helper()
		b.must(b.Apply(source("namespaces"), fmt.Appendf(nil, `{"kind":"Namespace","metadata":{"name":%q,"labels":{"kubernetes.io/metadata.name":%q}},"status":{"phase":"Active"}}`, name, name)))
	}
	secret := func(data string) {
		t.Helper()
		b.must(b.Apply(source("secrets"), fmt.Appendf(nil, `{"kind":"Secret","type":"kubernetes.io/dockerconfigjson","metadata":{"namespace":"registry","name":"pull","labels":{"example.com/copy":"everywhere","informd.dev/copy":"true"},"annotations":{}},"data":{".dockerconfigjson":%q}}`, data)))
	}
	for _, name := range []string{"registry", "shop", "web"} {
		namespace(name)
	}
	secret("e30=")
	b.must(b.Advance(0))
	b.expectActions("secrets-everywhere added pull: apply shop/pull, apply web/pull, prunes v1/secrets",
		"secrets-into-new-namespaces added registry: patch registry/pull", "secrets-into-new-namespaces added shop: patch registry/pull",
		"secrets-into-new-namespaces added web: patch registry/pull")
	b.must(b.Apply(source("namespaces"), []byte(`{"kind":"Namespace","metadata":{"name":"web"},"status":{"phase":"Terminating"}}`)))
	b.must(b.Restart(Restart{Down: time.Minute}))
	b.must(b.Advance(0))
	b.expectActions()
	secret("e319")
	b.must(b.Advance(0))
	b.expectActions("secrets-everywhere updated pull: apply shop/pull, prunes v1/secrets")
	namespace("new")
	b.must(b.Delete(source("secrets"), "registry", "pull"))
	b.must(b.Restart(Restart{Down: time.Minute}))
	b.must(b.Advance(time.Hour))
	b.expectActions("secrets-everywhere deleted pull: prunes v1/secrets") // there is nothing to patch for the namespace
}

// expectActions compares what came as what rules would have sent.
func (b *bench) expectActions(want ...string) {
	b.t.Helper()
	var got []string
	for _, e := range b.Events() {
		var all []string
		for _, a := range e.Actions {
			all = append(all, fmt.Sprintf("%s %s/%s", a.Verb, a.Namespace, a.Name))
		}
		for _, p := range e.Pruned {
			all = append(all, fmt.Sprintf("prunes %s/%s", p.Resource.Version, p.Resource.Resource))
		}
		if e.Dead != "" {
			all = append(all, "dead: "+e.Dead)
		}
		got = append(got, fmt.Sprintf("%s %s %s: %s", e.Rule, e.Event.Event, e.Event.Name, strings.Join(all, ", ")))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("events (-want +got)\n%s", diff)
	}
}

func TestLookups(t *testing.T) {
	t.Parallel()
	nodes := `kind: Source, metadata: {name: zones}, spec: {resource: v1/nodes, indexes: {name: object.metadata.name}}`
	b := simulation(t, Options{Stopped: true}, sizes, nodes, recorder,
		ruleOf("r", `, payload: 'first(lookup("zones.name", object.data.size)).metadata.labels.zone'`))
	node := func(name, zone string) {
		t.Helper()
		b.must(b.Apply("zones", fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":{"zone":%q}}}`, name, zone)))
	}
	b.put("a", "n1")
	node("n1", "north")
	b.must(b.Run(Resumption{}))
	b.expect(0, `r synced a "north"`)
	node("n2", "south")
	b.put("a", "n2")
	b.expect(0, `r updated a "south"`)
	b.must(b.Stop())
	node("n3", "west")
	b.put("a", "n3")
	b.must(b.Run(Resumption{}))
	b.expect(0, `r updated a "west"`)
}

func TestResync(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("r", ", resync: 1h"))
	for i := range 1000 {
		b.put(fmt.Sprintf("n%03d", i), "1")
	}
	b.must(b.Advance(30 * time.Minute))
	b.Events()
	got := b.come(2 * time.Hour)
	if len(got) != 2000 || got[0] != "r synced n000 after 30m0s" || got[1999] != "r synced n999 after 1h30m0s" {
		t.Errorf("%d events, from %v to %v", len(got), got[:min(1, len(got))], got[max(0, len(got)-1):])
	}
}

func TestSelections(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, recorder,
		"kind: Source, metadata: {name: maps}, spec: {resource: v1/configmaps}",
		"kind: Source, metadata: {name: labelled}, spec: {resource: v1/configmaps, labelSelector: app=web}",
		"kind: Source, metadata: {name: named}, spec: {resource: v1/configmaps, fieldSelector: metadata.name=a}",
		"kind: Source, metadata: {name: elsewhere}, spec: {resource: v1/configmaps, namespaces: [prod]}",
		"kind: Rule, metadata: {name: labelled}, spec: {source: labelled, handler: h}",
		"kind: Rule, metadata: {name: named}, spec: {source: named, handler: h}",
		"kind: Rule, metadata: {name: elsewhere}, spec: {source: elsewhere, handler: h}")
	apply := func(namespace, name, app string) {
		t.Helper()
		b.must(b.Apply("maps", fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q,"labels":{"app":%q}}}`, namespace, name, app)))
	}
	apply("shop", "a", "web")
	apply("shop", "b", "db")
	apply("prod", "c", "db")
	b.expectAnyOrder(0, "labelled added a", "named added a", "elsewhere added c")
	apply("shop", "a", "db")
	apply("shop", "b", "web")
	b.expectAnyOrder(0, "labelled deleted a", "named updated a", "labelled added b")
}

// What the API server adds is made up, always in the same way.
func TestObjectsAreCompleted(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder)
	get := func(object string) string {
		t.Helper()
		b.must(b.Apply("maps", []byte(object)))
		text, _ := b.Get("maps", "", "a")
		return string(text)
	}
	for _, step := range []struct{ apply, want string }{
		{`{"metadata":{"name":"a"},"spec":{"x":1}}`,
			`{"apiVersion":"v1","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"name":"a","resourceVersion":"2","uid":"00000000-0000-4000-8000-000000000001"},"spec":{"x":1}}`},
		{`{"metadata":{"name":"a","labels":{}},"spec":{"x": 1}}`,
			`{"apiVersion":"v1","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"labels":{},"name":"a","resourceVersion":"3","uid":"00000000-0000-4000-8000-000000000001"},"spec":{"x":1}}`},
		{`{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"x":2}}`,
			`{"apiVersion":"v1","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","generation":2,"name":"a","resourceVersion":"7","uid":"00000000-0000-4000-8000-000000000001"},"spec":{"x":2}}`},
		{`{"metadata":{"name":"a","uid":"other"}}`,
			`{"apiVersion":"v1","metadata":{"creationTimestamp":"2026-01-01T01:00:00Z","name":"a","resourceVersion":"9","uid":"other"}}`},
	} {
		if strings.Contains(step.apply, "other") {
			b.must(b.Advance(time.Hour))
		}
		if diff := cmp.Diff(step.want, get(step.apply)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", step.apply, diff)
		}
	}
	for _, wrong := range []string{`{`, `[]`, `{"metadata":{}}`, `{"metadata":{"name":"a"}} {}`} {
		if err := b.Apply("maps", []byte(wrong)); err == nil {
			t.Errorf("%s was applied", wrong)
		}
	}
	if b.Apply("nothing", []byte(`{"metadata":{"name":"a"}}`)) == nil || b.Delete("maps", "shop", "x") == nil || b.Advance(-1) == nil {
		t.Error("a wrong step is no error")
	}
}
