package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	pods  = "resource: v1/pods, keep: needed, indexes: {byNode: object.spec.nodeName}"
	nodes = "resource: v1/nodes, keep: needed, indexes: {byName: object.metadata.name}"
)

func TestFieldsReadByLookupsAreKept(t *testing.T) {
	const identity = "metadata.labels metadata.name metadata.namespace metadata.resourceVersion metadata.uid"
	zones := ruleOf("zones", `source: pods, handler: print, payload: {z: 'first(lookup("nodes.byName", object.spec.nodeName)).spec.zone'}`)
	for name, c := range map[string]struct{ manifests, pods, nodes string }{
		"by a rule's payload":          {source("pods", pods) + source("nodes", nodes) + zones, identity + " spec.nodeName", identity + " spec.zone"},
		"by a source that comes later": {zones + source("nodes", nodes) + source("pods", pods), identity + " spec.nodeName", identity + " spec.zone"},
		"by when": {source("pods", pods) + source("nodes", nodes) +
			ruleOf("a", `source: pods, handler: print, payload: object.kind, when: 'any(lookup("nodes.byName", object.x), .spec.bad)'`),
			"kind " + identity + " spec.nodeName x", identity + " spec.bad"},
		"each of the other": {source("pods", pods) + source("nodes", nodes) + zones +
			ruleOf("full", `source: nodes, handler: print, payload: 'map(lookup("pods.byNode", object.metadata.name), .status.phase)'`),
			identity + " spec.nodeName status.phase", identity + " spec.zone"},
		"whole": {source("pods", pods) + source("nodes", nodes) +
			ruleOf("a", `source: pods, handler: print, payload: 'lookup("nodes.byName", "x")'`), identity + " spec.nodeName", "whole"},
		"its own by name": {source("pods", pods) + source("nodes", nodes) +
			ruleOf("a", `source: pods, handler: print, payload: 'map(lookup("pods.byNode", "x"), .spec.y)'`), identity + " spec.nodeName spec.y", identity},
		"to choose what is attached": {source("pods", pods) + source("nodes", "resource: v1/nodes, indexes: {byName: object.metadata.name}") +
			ruleOf("a", `source: pods, handler: print, payload: object.kind, attach: {nodes: 'lookup("nodes.byName", object.spec.x)'}`),
			"kind " + identity + " spec.nodeName spec.x", "whole"},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, print+c.manifests)
			got := map[string]string{}
			for _, informer := range p.Informers {
				got[informer.Resource.Resource] = "whole"
				if informer.Keep != nil {
					got[informer.Resource.Resource] = informer.Keep.String()
				}
			}
			if diff := cmp.Diff(map[string]string{"pods": c.pods, "nodes": c.nodes}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRuleListsItsLookupSources(t *testing.T) {
	p := mustCompile(t, print+source("nodes", "resource: v1/nodes, indexes: {byName: object.metadata.name}")+
		source("pods", "resource: v1/pods, indexes: {byNode: object.spec.nodeName}")+
		source("zones", "resource: stable.example.com/v1/zones, indexes: {byName: object.metadata.name}")+
		source("maps", "resource: v1/configmaps, indexes: {byName: object.metadata.name}")+
		ruleOf("all", `source: pods, handler: print, when: 'len(lookup("nodes.byName", "x")) > 0', payload: 'map(lookup("maps.byName", "x"), .data)', attach: {own: 'lookup("pods.byNode", "x")', more: 'lookup("zones.byName", "x")'}`)+
		ruleOf("own", `source: pods, handler: print, when: 'len(lookup("pods.byNode", "x")) > 0'`))
	names := func(sources []*Source) (out []string) {
		for _, s := range sources {
			out = append(out, s.Name)
		}
		return out
	}
	got := [][]string{names(p.Rules[0].LooksInto), names(p.Rules[1].LooksInto)}
	if diff := cmp.Diff([][]string{{"maps", "nodes", "zones"}, nil}, got); diff != "" {
		t.Error(diff)
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "n%d: object, ", i)
	}
	return b.String()
}

func TestMistakesOfLookups(t *testing.T) {
	for name, c := range map[string]struct{ rule, want string }{
		"an unknown source":      {`when: 'any(lookup("node.byName", "x"), true)'`, `unknown source "node"; did you mean nodes?`},
		"an unknown index":       {`when: 'any(lookup("nodes.byNam", "x"), true)'`, `source nodes has no index "byNam"; did you mean byName?`},
		"another's index":        {`when: 'any(byIndex("byName", "x"), true)'`, `the rule's source has no index byName, and source nodes has: write lookup("nodes.byName", …)`},
		"in where":               {`where: 'any(lookup("nodes.byName", "x"), true)'`, "where cannot use lookup()"},
		"in what is attached":    {`attach: {n: 'lookup("nodes.byName")'}`, "lookup takes 2 arguments, not 1"},
		"attached parts":         {`attach: {n: 'map(lookup("nodes.byName", "x"), .spec)'}`, "attach sends whole objects"},
		"attached, not whole":    {`attach: {n: 'lookup("nodes.byName", "x")'}`, `source "nodes" keeps only what is needed, and attach sends whole objects`},
		"attached from its own":  {`attach: {n: 'byIndex("byNode", "x")'}`, `source "pods" keeps only what is needed, and attach sends whole objects`},
		"attached under no name": {`attach: {"": 'lookup("nodes.byName", "x")'}`, `the name "" in spec.attach must begin with a letter`},
		"attached in a list":     {`attach: ['lookup("nodes.byName", "x")']`, "spec.attach must be a mapping of names to expressions, not a list"},
		"attached too many":      {"attach: {" + many(17) + "}", "spec.attach has 17 names, more than 16"},
		"attached nothing":       {`attach: {n: ""}`, "spec.attach.n is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, mistakes := compile(t, print+source("pods", pods)+source("nodes", nodes)+
				ruleOf("a", "source: pods, handler: print, payload: object.kind, "+c.rule))
			if len(mistakes) != 1 || !strings.Contains(mistakes.Error(), c.want) {
				t.Errorf("%v\nwant %s", mistakes, c.want)
			}
		})
	}
}
