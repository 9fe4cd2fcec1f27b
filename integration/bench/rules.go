package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/informd/informd/integration/bench/fleet"
)

// rule describes a Rule manifest about updates, and which changes of the load it selects.
type rule struct {
	name, source string
	where, when  string
	payload      map[string]string // nil if the rule has no payload
	selects      func(was, is state) bool
}

// state holds what rules read from an object. Fields of other resources are zero.
type state struct {
	fleet.App
	pod        fleet.Pod
	deployment fleet.Deployment
}

func stateAt(resource string, i, updates int) state {
	switch resource {
	case pods:
		p := fleet.PodAt(i, updates)
		return state{App: p.App, pod: p}
	case deployments:
		d := fleet.DeploymentAt(i, updates)
		return state{App: d.App, deployment: d}
	default:
		return state{App: fleet.AppAt(i)}
	}
}

// typical holds ten rules of the kind that people write. The measurement of `keep: needed` uses the
// first five.
var typical = []rule{
	{
		"not-ready", pods, `object.metadata.namespace == "shop"`,
		`any(object.status.conditions, .type == "Ready" and .status == "False") and ` +
			`any(old.status.conditions, .type == "Ready" and .status == "True")`,
		map[string]string{
			"pod": `object.metadata.name`, "node": `object.spec.nodeName`,
			"since": `object.status.conditions`,
		},
		func(was, is state) bool {
			return is.Namespace == "shop" && was.pod.Ready && !is.pod.Ready
		},
	},
	{
		"restarted", pods, `object.metadata.labels.tier == "web"`,
		`object.status.containerStatuses[0].restartCount > ` +
			`old.status.containerStatuses[0].restartCount`,
		map[string]string{
			"pod":      `object.metadata.name`,
			"restarts": `object.status.containerStatuses[0].restartCount`,
		},
		func(was, is state) bool { return is.Tier == "web" && is.pod.Restarts > was.pod.Restarts },
	},
	{
		"started", pods, `object.metadata.namespace in ["pay", "bill"]`,
		`object.status.phase == "Running" and old.status.phase == "Pending"`,
		map[string]string{"pod": `object.metadata.name`, "ip": `object.status.podIP`},
		func(was, is state) bool {
			return (is.Namespace == "pay" || is.Namespace == "bill") &&
				is.pod.Phase == "Running" && was.pod.Phase == "Pending"
		},
	},
	{
		"degraded", deployments, `object.metadata.labels.tier == "web"`,
		`object.status.readyReplicas < object.spec.replicas`,
		map[string]string{
			"deployment": `object.metadata.name`, "ready": `object.status.readyReplicas`,
		},
		func(_, is state) bool {
			return is.Tier == "web" && is.deployment.Ready < is.deployment.Replicas
		},
	},
	{
		"checkpoint", configmaps, `object.metadata.namespace == "audit"`,
		`object.data["checkpoint.json"] != old.data["checkpoint.json"]`,
		map[string]string{
			"config": `object.metadata.name`, "checkpoint": `object.data["checkpoint.json"]`,
		},
		func(_, is state) bool { return is.Namespace == "audit" },
	},
	{
		"crash-looping", pods, `object.metadata.labels.app == "shop-api"`,
		`any(object.status.containerStatuses, .state.waiting.reason == "CrashLoopBackOff")`, nil,
		func(was, is state) bool {
			return is.Name == "shop-api" && is.pod.Restarts > was.pod.Restarts
		},
	},
	{
		"ready-again", pods,
		`object.metadata.namespace == "core" and object.metadata.labels.tier == "web"`,
		`all(object.status.containerStatuses, .ready) and ` +
			`!all(old.status.containerStatuses, .ready)`, nil,
		func(was, is state) bool {
			return is.Namespace == "core" && is.Tier == "web" && is.pod.Ready && !was.pod.Ready
		},
	},
	{
		"moved", pods, `object.metadata.labels.app == "search-worker"`,
		`object.spec.nodeName != old.spec.nodeName`, nil,
		func(was, is state) bool { return false },
	},
	{
		"recovered", deployments, `object.metadata.namespace == "core"`,
		`object.status.readyReplicas == object.spec.replicas and ` +
			`old.status.readyReplicas < object.spec.replicas`, nil,
		func(was, is state) bool {
			return is.Namespace == "core" && is.deployment.Ready == is.deployment.Replicas &&
				was.deployment.Ready < is.deployment.Replicas
		},
	},
	{
		"settings", configmaps, `object.metadata.labels.app == "chat-api"`,
		`object.data["settings.yaml"] != old.data["settings.yaml"]`, nil,
		func(was, is state) bool { return false },
	},
}

// alike returns n rules about pods, in groups of five, or in one group if there are fewer, and the
// size of the groups. All rules of a group select the same updates, and each update is selected by
// one group. A group is about a tier, a namespace or an application, whichever gives enough groups.
func alike(n int) (rules []rule, matching int) {
	matching = min(n, 5)
	for r := range n {
		group := r / matching
		var where string
		var selects func(was, is state) bool
		switch groups := n / matching; groups {
		case 1:
			where = `object.metadata.labels.tier != ""`
			selects = func(_, _ state) bool { return true }
		case 2:
			tier := []string{"web", "backend"}[group]
			where = fmt.Sprintf(`object.metadata.labels.tier == %q`, tier)
			selects = func(_, is state) bool { return is.Tier == tier }
		case fleet.Teams:
			namespace := fleet.Namespace(group)
			where = fmt.Sprintf(`object.metadata.namespace == %q`, namespace)
			selects = func(_, is state) bool { return is.Namespace == namespace }
		case fleet.Apps:
			app := fleet.AppAt(group).Name
			where = fmt.Sprintf(`object.metadata.labels.app == %q`, app)
			selects = func(_, is state) bool { return is.Name == app }
		default:
			panic(fmt.Sprintf("bench: no way to make %d groups", groups))
		}
		rules = append(rules, rule{
			fmt.Sprintf("rule-%d", r), pods, where,
			`object.status.conditions != old.status.conditions`,
			map[string]string{
				"pod": `object.metadata.name`, "node": `object.spec.nodeName`,
			}, selects,
		})
	}
	return rules, matching
}

// about returns the rules about a resource.
func about(resource string, rules []rule) []rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return r.source != resource })
}

// selected returns a function that counts the rules that select a change.
func selected(rules []rule) func(change) int {
	return func(c change) int {
		n := 0
		was, is := stateAt(c.resource, c.i, c.updates-1), stateAt(c.resource, c.i, c.updates)
		for _, r := range rules {
			if r.source == c.resource && r.selects(was, is) {
				n++
			}
		}
		return n
	}
}

// indexes declares two indexes of pods by expressions.
const indexes = `{byNode: object.spec.nodeName, byImage: "map(object.spec.containers, .image)"}`

// manifests returns the rules, a Source for each of their resources, and a Handler called none that
// never runs. The Source of pods has two indexes. A Source that rules look objects up in has one.
func manifests(rules []rule, keep string) string {
	var b strings.Builder
	for _, res := range resources {
		name := res.gvr.Resource
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.source == name }) {
			continue
		}
		fmt.Fprintf(&b, "{apiVersion: informd.dev/v1alpha1, kind: Source, "+
			"metadata: {name: %s},\n spec: {resource: %s/%s, keep: %s",
			name, res.gvr.GroupVersion(), name, keep)
		switch {
		case name == pods:
			fmt.Fprintf(&b, ", indexes: %s", indexes)
		case slices.ContainsFunc(rules, func(r rule) bool {
			return strings.Contains(r.when, `lookup("`+name+`.byApp"`)
		}):
			fmt.Fprint(&b, ", indexes: {byApp: object.metadata.labels.app}")
		}
		fmt.Fprint(&b, "}}\n---\n")
	}
	fmt.Fprint(&b, "{apiVersion: informd.dev/v1alpha1, kind: Handler, "+
		"metadata: {name: none}, spec: {builtin: log}}\n")
	for _, r := range rules {
		fmt.Fprintf(&b, `---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: %s}
spec:
  source: %s
  where: '%s'
  events: [updated]
  when: '%s'
  delivery: every
  handler: none
`, r.name, r.source, r.where, r.when)
		if r.payload != nil {
			fmt.Fprint(&b, "  payload:\n")
		}
		for _, key := range slices.Sorted(maps.Keys(r.payload)) {
			fmt.Fprintf(&b, "    %s: '%s'\n", key, r.payload[key])
		}
	}
	return b.String()
}
