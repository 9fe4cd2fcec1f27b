package plan

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/timing"
)

func compile(t *testing.T, manifests string) (*Plan, config.Mistakes) {
	t.Helper()
	return compileOf(manifests)
}

func compileOf(manifests string) (*Plan, config.Mistakes) {
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(manifests)}})
	p, more := Compile(c)
	mistakes = append(mistakes, more...)
	mistakes.Sort()
	return p, mistakes
}

func mustCompile(t *testing.T, manifests string) *Plan {
	t.Helper()
	p, mistakes := compile(t, manifests)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return p
}

const head = "apiVersion: informd.dev/v1alpha1\n"

func source(name, spec string) string {
	return head + "kind: Source\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n---\n"
}

func ruleOf(name, spec string) string {
	return head + "kind: Rule\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n---\n"
}

const print = head + "kind: Handler\nmetadata: {name: print}\nspec: {builtin: log}\n---\n"

func TestEqualSelectionsShareAnInformer(t *testing.T) {
	p := mustCompile(t, print+
		source("a", `resource: v1/pods, labelSelector: "tier in (web),app=x"`)+
		source("b", `resource: v1/pods, labelSelector: "app = x, tier=web"`)+
		source("c", `resource: v1/pods`)+
		source("d", `resource: v1/pods, namespaces: [shop, pay]`)+
		source("e", `resource: v1/pods, namespaces: [pay]`)+
		ruleOf("one", `source: a, handler: print`)+ruleOf("two", `source: b, handler: print`))
	if got := len(p.Informers); got != 4 {
		t.Errorf("%d informers, want 4: the selection of a and b, all pods, shop, pay", got)
	}
	if p.Sources[0].Informers[0] != p.Sources[1].Informers[0] {
		t.Error("a and b must share an informer, because they select the same")
	}
	if p.Sources[3].Informers[1] != p.Sources[4].Informers[0] {
		t.Error("d must share e's informer, because e selects one of d's namespaces")
	}
	if got := len(p.Sources[0].Informers[0].Rules); got != 2 {
		t.Errorf("%d rules on the shared informer, want 2", got)
	}
}

func TestEqualIndexesAreShared(t *testing.T) {
	p := mustCompile(t,
		source("a", `resource: v1/pods, indexes: {byNode: object.spec.nodeName, byApp: object.metadata.labels.app}`)+
			source("b", `resource: v1/pods, indexes: {node: object.spec.nodeName, byNode: object.status.hostIP}`))
	if got := len(p.Informers[0].Indexes); got != 3 {
		t.Errorf("%d indexes, want 3", got)
	}
	want := map[string]string{"node": "object.spec.nodeName", "byNode": "object.status.hostIP"}
	if diff := cmp.Diff(want, p.Sources[1].Indexes); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyFieldsThatAreReadAreKept(t *testing.T) {
	const index = `indexes: {byNode: object.spec.nodeName}`
	reading := ruleOf("reads", `source: a, handler: print, where: 'object.status.phase == "Failed"', payload: {n: object.metadata.name}`)
	for name, c := range map[string]struct{ manifests, want string }{
		"whole by default": {source("a", `resource: v1/pods, `+index) + reading, "whole"},
		"needed": {source("a", `resource: v1/pods, keep: needed, `+index) + reading,
			"metadata.labels metadata.name metadata.namespace metadata.resourceVersion metadata.uid spec.nodeName status.phase"},
		"another wants more": {source("a", `resource: v1/pods, keep: needed`) + source("b", `resource: v1/pods`) + reading, "whole"},
		"all is read":        {source("a", `resource: v1/pods, keep: needed`) + ruleOf("sends", `source: a, handler: print, payload: object`), "whole"},
		"an index reads all": {source("a", `resource: v1/pods, keep: needed, indexes: {byText: toJSON(object)}`), "whole"},
		"nothing is read": {source("a", `resource: v1/pods, keep: needed`),
			"metadata.labels metadata.name metadata.namespace metadata.resourceVersion metadata.uid"},
	} {
		t.Run(name, func(t *testing.T) {
			keep, got := mustCompile(t, print+c.manifests).Informers[0].Keep, "whole"
			if keep != nil {
				got = keep.String()
			}
			if got != c.want {
				t.Errorf("keeps %q, want %q", got, c.want)
			}
		})
	}
}

func TestViewHoldsFieldsOfRulesAndIndexes(t *testing.T) {
	p := mustCompile(t, print+
		source("a", `resource: v1/pods, namespaces: [shop, pay], indexes: {byNode: object.spec.nodeName}`)+
		source("b", `resource: v1/pods, namespaces: [pay]`)+
		ruleOf("one", `source: a, handler: print, where: object.kind == "x", when: old.status.phase == "y"`)+
		ruleOf("two", `source: b, handler: print, payload: {n: object.metadata.name}`))
	want := []string{"kind spec.nodeName status.phase", "kind metadata.name spec.nodeName status.phase"}
	for i, informer := range p.Informers {
		if got := informer.View.String(); got != want[i] {
			t.Errorf("in %s the view is %q, want %q", informer.Namespace, got, want[i])
		}
	}
}

func TestRuleWithoutPayloadNeedsWholeObjects(t *testing.T) {
	needed := source("a", `resource: v1/pods, keep: needed`)
	p, mistakes := compile(t, print+needed+ruleOf("sends", `source: a, handler: print`))
	want := "rules.yaml:14:16: source \"a\" keeps only what is needed, and a rule without a payload needs whole objects: " +
		"give the rule a payload, or the source keep: whole\n  spec: {source: a, handler: print}\n                 ^"
	if p != nil || mistakes.Error() != want {
		t.Errorf("%v\nwant %s", mistakes, want)
	}
	if _, mistakes := compile(t, print+needed+source("b", `resource: v1/pods`)+ruleOf("sends", `source: a, handler: print`)); len(mistakes) != 1 {
		t.Errorf("want one mistake, although a source that keeps whole objects shares the informer: %v", mistakes)
	}
	if _, mistakes := compile(t, print+needed+ruleOf("sends", `source: a, handler: print, payload: ""`)); len(mistakes) != 1 {
		t.Errorf("want one mistake for a mistaken payload: %v", mistakes)
	}
	mustCompile(t, print+needed+ruleOf("sends", `source: a, handler: print, payload: object`))
	mustCompile(t, print+needed) // without a rule, nothing needs whole objects
}

func TestRules(t *testing.T) {
	p := mustCompile(t, print+head+"kind: Handler\nmetadata: {name: idle}\nspec: {builtin: log}\n---\n"+
		source("a", `resource: v1/pods, resync: 10m`)+
		ruleOf("plain", `source: a, handler: print`)+
		ruleOf("own", `source: a, handler: print, resync: 1h, delivery: every, events: [deleted]`)+
		ruleOf("never", `source: a, handler: print, resync: 0`))
	plain, own, never := p.Rules[0], p.Rules[1], p.Rules[2]
	if plain.Rounds != timing.Every(10*time.Minute) || own.Rounds != timing.Every(time.Hour) || never.Rounds != nil {
		t.Errorf("rounds %v, %v, %v", plain.Rounds, own.Rounds, never.Rounds)
	}
	if plain.Every || !own.Every || plain.Events != delta.All || own.Events != delta.SetOf(delta.Deleted) {
		t.Errorf("the delivery or the events are wrong: %+v and %+v", plain, own)
	}
	if len(p.Handlers) != 1 || p.Handlers[0].Name != "print" {
		t.Errorf("the plan has handlers %v, want print alone, because no rule uses idle", p.Handlers)
	}
}

func TestEveryMistakeAtOnce(t *testing.T) {
	p, mistakes := compile(t, print+
		source("a", "resource: v1/pods, indexes: {byNode: object.spec.}")+
		ruleOf("one", "source: a, handler: print, where: now() == nil, when: objekt.x")+
		ruleOf("two", `source: a, handler: nobody, payload: {x: [1 +, 'byIndex("byNod", 1)']}`))
	if p != nil {
		t.Error("Compile returns a plan together with mistakes")
	}
	var got []string
	for _, m := range mistakes {
		got = append(got, strings.SplitN(m.Error(), "\n", 2)[0])
	}
	want := []string{"rules.yaml:9:", "rules.yaml:14:", "rules.yaml:14:", "rules.yaml:19:", "rules.yaml:19:", "rules.yaml:19:"}
	for i, prefix := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], prefix) {
			t.Fatalf("mistakes:\n%s\nwant them at:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d mistakes:\n%s", len(got), strings.Join(got, "\n"))
	}
	t.Log("\n" + mistakes.Error())
}

// A mistake in a template of a payload has the position where the author wrote it.
func TestMistakesInPayloadTemplates(t *testing.T) {
	for payload, want := range map[string]string{
		`{a: "Pod ${object.metadata.name"}`:    "rules.yaml:14:53: ${ is not closed",
		`{a: "Pod ${objekt.metadata.name} x"}`: "rules.yaml:14:55: unknown name",
		`["${object.a}${1 +}"]`:                "rules.yaml:14:62: ",
		`'"${object.kind}"'`:                   "rules.yaml:14:45: ${ stands within quotes, so this is an expression as well",
		`'"$${" + object.kind'`:                "rules.yaml:14:45: ${ stands within quotes",
		`{"a${object.kind}": 1}`:               "rules.yaml:14:46: a key cannot have expressions in it",
	} {
		_, mistakes := compile(t, print+source("a", "resource: v1/pods")+ruleOf("r", "source: a, handler: print, payload: "+payload))
		if len(mistakes) != 1 || !strings.HasPrefix(mistakes[0].Error(), want) {
			t.Errorf("%s: %v\nwant %s", payload, mistakes, want)
		}
	}
}

// Rules that write the same expression share a program, unless byIndex means another index in it.
func TestEqualExpressionsShareAProgram(t *testing.T) {
	p := mustCompile(t, print+
		source("a", `resource: v1/pods, indexes: {byNode: object.spec.nodeName, x: object.kind}`)+
		source("b", `resource: v1/pods, indexes: {byNode: object.spec.nodeName}`)+
		ruleOf("one", `source: a, handler: print, where: object.kind == "Pod", when: 'byIndex("byNode", "n") == nil'`)+
		ruleOf("two", `source: a, handler: print, where: object.kind == "Pod", when: 'byIndex("byNode", "n") == nil'`)+
		ruleOf("three", `source: b, handler: print, where: object.kind == "Job", when: 'byIndex("byNode", "n") == nil'`)+
		ruleOf("four", `source: a, handler: print, when: object.kind == "Pod"`))
	one, two, three, four := p.Rules[0], p.Rules[1], p.Rules[2], p.Rules[3]
	if one.Where != two.Where || one.When != two.When {
		t.Error("two rules of one source write the same, and do not share it")
	}
	if one.When == three.When || one.Where == three.Where || one.Where == four.When {
		t.Error("rules share a program that means something else")
	}
}

// Rules that are alike share their payload, and the paths that they read.
func TestEqualPayloadsAreShared(t *testing.T) {
	p := mustCompile(t, print+
		source("a", `resource: v1/pods, indexes: {byNode: object.spec.nodeName}`)+
		source("b", `resource: v1/pods, indexes: {byHost: object.spec.hostname}`)+
		ruleOf("one", `source: a, handler: print, where: object.kind == "Pod", payload: {of: object.spec, n: "${object.kind}"}`)+
		ruleOf("two", `source: a, handler: print, where: object.kind == "Job", payload: {of: object.spec, n: "${object.kind}"}`)+
		ruleOf("three", `source: a, handler: print, payload: {of: object.spec, n: object.kind + ""}`)+
		ruleOf("four", `source: b, handler: print, payload: {of: object.spec, n: "${object.kind}"}`)+
		ruleOf("five", `source: a, handler: print, payload: {of: object.spec}`))
	one, two := p.Rules[0], p.Rules[1]
	if one.Payload != two.Payload || one.Reads != two.Reads {
		t.Error("two rules of one source write the same payload, and do not share it")
	}
	for _, r := range p.Rules[2:] {
		if r.Payload == one.Payload {
			t.Errorf("rule %s shares a payload that means something else", r.Name)
		}
	}
}

// Two paths may look alike to people, and are not the same.
func TestPathsThatLookAlikeAreNotShared(t *testing.T) {
	p := mustCompile(t, print+source("a", `resource: v1/configmaps, keep: needed`)+
		ruleOf("dot", `source: a, handler: print, payload: {of: 'object.data["a.b"]'}`)+
		ruleOf("deep", `source: a, handler: print, payload: {of: object.data.a.b}`)+
		ruleOf("space", `source: a, handler: print, payload: {of: 'object["x y"]'}`)+
		ruleOf("two", `source: a, handler: print, payload: {of: '[object.x, object.y]'}`))
	for _, r := range p.Rules {
		if diff := cmp.Diff(r.Paths().List(), r.Reads.List()); diff != "" {
			t.Errorf("rule %s: Reads is not what Paths returns (-want +got):\n%s", r.Name, diff)
		}
	}
}

// Each rule with a mistake in its payload gets an error, also if another one made the same.
func TestMistakesOfEqualPayloads(t *testing.T) {
	_, mistakes := compile(t, print+source("a", `resource: v1/pods`)+
		ruleOf("one", `source: a, handler: print, payload: {of: objekt.spec}`)+
		ruleOf("two", `source: a, handler: print, payload: {of: objekt.spec}`))
	if len(mistakes) != 2 {
		t.Errorf("got %d mistakes, want one per rule: %v", len(mistakes), mistakes)
	}
}

// A plan runs for long, and the configuration that it was made of takes as much memory as itself.
func TestPlanKeepsNoConfiguration(t *testing.T) {
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(print +
		source("a", `resource: v1/pods, indexes: {byNode: object.spec.nodeName}`) +
		ruleOf("one", `source: a, handler: print, where: object.kind == "Pod", payload: {of: object.spec}`))}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	p, mistakes := Compile(c)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	left := weak.Make(c)
	c = nil
	for range 3 {
		runtime.GC()
	}
	if left.Value() != nil {
		t.Error("the plan keeps its configuration in memory")
	}
	runtime.KeepAlive(p)
}

// A payload that is a text without its quotes says how to write it.
func TestPayloadsWithoutQuotes(t *testing.T) {
	for payload, want := range map[string]string{
		"Pod failed":          `unexpected "failed"; for the text itself write '"Pod failed"'`,
		"{text: Pod failed!}": `for the text itself write '"Pod failed!"'`,
		"[hello]":             `unknown name "hello"; for the text itself write '"hello"'`,
		"objekt":              `unknown name "objekt"; did you mean object?`,
		"object.spec +":       "unexpected end of the expression",
	} {
		_, mistakes := compile(t, print+source("a", "resource: v1/pods")+ruleOf("r", "source: a, handler: print, payload: "+payload))
		if len(mistakes) != 1 || !strings.HasSuffix(mistakes[0].Message, want) {
			t.Errorf("%s: %v\nwant %s", payload, mistakes, want)
		}
	}
}

// Rules that write the same expression are watched one by one.
func TestCompileWatched(t *testing.T) {
	rules := source("things", "resource: v1/pods") + head + "kind: Handler\nmetadata: {name: h}\nspec: {builtin: log}\n"
	for _, name := range []string{"a", "b"} {
		rules += "---\n" + head + "kind: Rule\nmetadata: {name: " + name + "}\nspec: {source: things, handler: h, where: object.x == 1 and object.y == 2, payload: object.z and object.x}\n"
	}
	cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(rules)}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	branches := make(map[string][]string) // by where the expression stands
	_, mistakes = CompileWatched(cfg, func(in config.Text, b expr.Branch) func(bool) {
		at := in.Position(0).String()
		branches[at] = append(branches[at], b.Text)
		return func(bool) {}
	})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	if len(branches) != 2 {
		t.Errorf("the expressions of %d rules are watched: %v", len(branches), branches)
	}
	for at, b := range branches {
		if len(b) != 2 {
			t.Errorf("%s has the branches %q", at, b)
		}
	}
}
