package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/informd/informd/integration/bench/fleet"
)

// rule describes a Rule manifest about updates, and which changes of the load it selects.
type rule struct {
	name, source string
	where, when  string
	time         string            // its for or due, in YAML; "" if it has none
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
		"", map[string]string{
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
		"", map[string]string{
			"pod":      `object.metadata.name`,
			"restarts": `object.status.containerStatuses[0].restartCount`,
		},
		func(was, is state) bool { return is.Tier == "web" && is.pod.Restarts > was.pod.Restarts },
	},
	{
		"started", pods, `object.metadata.namespace in ["pay", "bill"]`,
		`object.status.phase == "Running" and old.status.phase == "Pending"`,
		"", map[string]string{"pod": `object.metadata.name`, "ip": `object.status.podIP`},
		func(was, is state) bool {
			return (is.Namespace == "pay" || is.Namespace == "bill") &&
				is.pod.Phase == "Running" && was.pod.Phase == "Pending"
		},
	},
	{
		"degraded", deployments, `object.metadata.labels.tier == "web"`,
		`object.status.readyReplicas < object.spec.replicas`,
		"", map[string]string{
			"deployment": `object.metadata.name`, "ready": `object.status.readyReplicas`,
		},
		func(_, is state) bool {
			return is.Tier == "web" && is.deployment.Ready < is.deployment.Replicas
		},
	},
	{
		"checkpoint", configmaps, `object.metadata.namespace == "audit"`,
		`object.data["checkpoint.json"] != old.data["checkpoint.json"]`,
		"", map[string]string{
			"config": `object.metadata.name`, "checkpoint": `object.data["checkpoint.json"]`,
		},
		func(_, is state) bool { return is.Namespace == "audit" },
	},
	{
		"crash-looping", pods, `object.metadata.labels.app == "shop-api"`,
		`any(object.status.containerStatuses, .state.waiting.reason == "CrashLoopBackOff")`, "", nil,
		func(was, is state) bool {
			return is.Name == "shop-api" && is.pod.Restarts > was.pod.Restarts
		},
	},
	{
		"ready-again", pods,
		`object.metadata.namespace == "core" and object.metadata.labels.tier == "web"`,
		`all(object.status.containerStatuses, .ready) and ` +
			`!all(old.status.containerStatuses, .ready)`, "", nil,
		func(was, is state) bool {
			return is.Namespace == "core" && is.Tier == "web" && is.pod.Ready && !was.pod.Ready
		},
	},
	{
		"moved", pods, `object.metadata.labels.app == "search-worker"`,
		`object.spec.nodeName != old.spec.nodeName`, "", nil,
		func(was, is state) bool { return false },
	},
	{
		"recovered", deployments, `object.metadata.namespace == "core"`,
		`object.status.readyReplicas == object.spec.replicas and ` +
			`old.status.readyReplicas < object.spec.replicas`, "", nil,
		func(was, is state) bool {
			return is.Namespace == "core" && is.deployment.Ready == is.deployment.Replicas &&
				was.deployment.Ready < is.deployment.Replicas
		},
	},
	{
		"settings", configmaps, `object.metadata.labels.app == "chat-api"`,
		`object.data["settings.yaml"] != old.data["settings.yaml"]`, "", nil,
		func(was, is state) bool { return false },
	},
}

// alike returns n rules about pods, in groups of five, or in one group if there are fewer, and the
// size of the groups. All rules of a group select the same updates, and each update is selected by
// one group. A group is about a tier, a namespace, an application, or an application on one of ten
// racks of nodes, whichever gives enough groups.
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
		case fleet.Apps * racks:
			app, rack := fleet.AppAt(group%fleet.Apps).Name, rackNodes(group/fleet.Apps)
			where = fmt.Sprintf(`object.metadata.labels.app == %q and object.spec.nodeName in %s`,
				app, quoted(rack))
			selects = func(_, is state) bool {
				return is.Name == app && slices.Contains(rack, is.pod.Node)
			}
		default:
			panic(fmt.Sprintf("bench: no way to make %d groups", groups))
		}
		rules = append(rules, alikeRule(r, where, selects))
	}
	return rules, matching
}

// racks is the number of racks in which alike divides the nodes.
const racks = 10

func rackNodes(rack int) (nodes []string) {
	for n := rack; n < fleet.Nodes; n += racks {
		nodes = append(nodes, fleet.Node(n))
	}
	return nodes
}

// overlapping returns n rules about pods whose wheres all read the same two fields: each selects
// one tier on a few neighbouring nodes. Any five selections in a row overlap, and five rules select
// each update. n is 10 or 1000.
func overlapping(n int) (rules []rule, matching int) {
	const matches = 5
	tiers := []string{"web", "backend"}
	for r := range n {
		tier, window := tiers[r%2], r/2
		var nodes []string
		for k := range matches * fleet.Nodes / (n / 2) {
			nodes = append(nodes, fleet.Node((window*fleet.Nodes/(n/2)+k)%fleet.Nodes))
		}
		where := fmt.Sprintf(`object.spec.nodeName in %s and object.metadata.labels.tier == %q`,
			quoted(nodes), tier)
		rules = append(rules, alikeRule(r, where, func(_, is state) bool {
			return is.Tier == tier && slices.Contains(nodes, is.pod.Node)
		}))
	}
	return rules, matches
}

// quoted returns a list of strings as an expression.
func quoted(list []string) string { return `["` + strings.Join(list, `", "`) + `"]` }

// alikeRule returns the r-th of many rules, which differ in where only.
func alikeRule(r int, where string, selects func(was, is state) bool) rule {
	return rule{
		fmt.Sprintf("rule-%d", r), pods, where,
		`object.status.conditions != old.status.conditions`, "",
		map[string]string{
			"pod": `object.metadata.name`, "node": `object.spec.nodeName`,
		}, selects,
	}
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

// perFile is how many rules are in one file. informd reads no file of more than 1 MiB.
const perFile = 500

// manifests returns the files of rules, of a Source for each of their resources, and of a Handler
// called none that never runs. The Source of pods has two indexes. A Source that rules look objects
// up in has one.
func manifests(rules []rule, keep string) (files []string) {
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
	for i, r := range rules {
		if i > 0 && i%perFile == 0 {
			files = append(files, b.String())
			b.Reset()
		}
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
		if r.time != "" {
			fmt.Fprintf(&b, "  %s\n", r.time)
		}
		if r.payload != nil {
			fmt.Fprint(&b, "  payload:\n")
		}
		for _, key := range slices.Sorted(maps.Keys(r.payload)) {
			fmt.Fprintf(&b, "    %s: '%s'\n", key, r.payload[key])
		}
	}
	return append(files, b.String())
}

// writeManifests writes the files into a folder, and returns their paths.
func writeManifests(dir string, rules []rule, keep string) (paths []string, err error) {
	for i, text := range manifests(rules, keep) {
		path := filepath.Join(dir, fmt.Sprintf("rules-%d.yaml", i))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
