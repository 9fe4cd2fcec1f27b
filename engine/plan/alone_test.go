package plan

import (
	"strings"
	"testing"
)

const nightly = `schedule: {cron: "0 3 * * *"}, `

func TestRuleWithoutASourceIsAboutItself(t *testing.T) {
	p := mustCompile(t, print+source("pods", `resource: v1/pods, keep: needed, indexes: {byPhase: object.status.phase}`)+
		source("rules", `resource: informd.dev/v1alpha1/rules, fieldSelector: metadata.name=report`)+
		ruleOf("report", nightly+`handler: print, payload: 'len(lookup("pods.byPhase", "Failed"))'`)+
		ruleOf("again", nightly+`handler: print`))
	if len(p.Sources) != 2 || len(p.Informers) != 2 {
		t.Errorf("%d sources and %d informers, want 2 of manifests", len(p.Sources), len(p.Informers))
	}
	for _, r := range p.Rules {
		i := r.Source.Informers[0]
		want := `{"apiVersion":"informd.dev/v1alpha1","kind":"Rule","metadata":` +
			`{"name":"` + r.Name + `","resourceVersion":"1","uid":"` + r.Name + `"}}`
		if !r.Source.IsRule() || string(i.Fixed) != want || i.Keep != nil {
			t.Errorf("the rule %s is about %s, of which %v stays", r.Name, i.Fixed, i.Keep)
		}
		if len(i.Rules) != 1 || i.Rules[0] != r || r.Rounds == nil || !r.OnlyInRounds {
			t.Errorf("the rule %s does not have its object and its schedule alone", r.Name)
		}
	}
	if looks := p.Rules[0].LooksInto; len(looks) != 1 || looks[0].Name != "pods" {
		t.Errorf("the rule report looks into %v", looks)
	}
}

func TestMistakesOfRulesWithoutASource(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"byIndex": {
			`handler: print, payload: 'byIndex("byPhase", "Failed")'`,
			`the rule has no source that byIndex() could search; lookup("SOURCE.INDEX", value) searches any source`,
		},
		"attach byIndex":             {`handler: print, attach: {pods: 'byIndex("byPhase", "Failed")'}`, "has no source that byIndex()"},
		"delete of its own object":   {`actions: [{delete: {}}]`, "delete needs a resource and a name here"},
		"delete without a name":      {`actions: [{delete: {resource: v1/pods}}]`, "delete needs a resource and a name here"},
		"an Event without an object": {`actions: [{event: {name: "a", reason: Reported}}]`, "event needs a resource and a name here"},
		"a patch":                    {`actions: [{patch: {merge: {a: b}}}]`, "patch needs a resource and a name here"},
		"an unknown source":          {`handler: print, payload: 'lookup("nodes.byName", "a")'`, `unknown source "nodes"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, mistakes := compile(t, print+source("pods", `resource: v1/pods, indexes: {byPhase: object.status.phase}`)+ruleOf("report", nightly+c.spec))
			if len(mistakes) != 1 || !strings.Contains(mistakes.Error(), c.want) {
				t.Errorf("%v\nwant %s", mistakes, c.want)
			}
		})
	}
}
