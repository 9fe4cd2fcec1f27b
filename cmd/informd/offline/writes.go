package offline

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// describeWrites returns a line for each rule and handler that may change the cluster. informd's
// own user needs these rights.
func describeWrites(cfg *config.Config, p *plan.Plan) string {
	var b strings.Builder
	for _, r := range p.Rules {
		if r.Actions == nil {
			continue
		}
		var changes []string
		for _, a := range r.Actions.Each {
			changes = append(changes, a.Verb+" "+targetName(a.Resource, a.Subresource))
		}
		for _, resource := range r.Prune {
			changes = append(changes, "prune "+targetName(resource, ""))
		}
		slices.Sort(changes)
		list := strings.Join(slices.Compact(changes), ", ")
		b.WriteString(wrap("rule "+r.Name+" may "+list) + "\n")
	}
	for _, h := range cfg.Handlers {
		var changes []string
		for _, g := range h.Write {
			change := strings.Join(g.Verbs, " and ") + " " + targetName(g.Resource, g.Subresource)
			if len(g.Namespaces) > 0 {
				change += " in " + strings.Join(g.Namespaces, " and ")
			}
			if len(g.Names) > 0 {
				change += " named " + strings.Join(g.Names, " or ")
			}
			changes = append(changes, change)
		}
		if len(changes) > 0 {
			b.WriteString(wrap("handler "+h.Name+" may "+strings.Join(changes, ", ")) + "\n")
		}
	}
	return b.String()
}

// describeUndoing returns a line for each rule that deletes again what it applies.
func describeUndoing(p *plan.Plan) string {
	var b strings.Builder
	for _, r := range p.Rules {
		if u, ok := r.Undoes(); ok {
			fmt.Fprintf(&b, "rule %s deletes what it applies: after its %s.patch the object is no member, "+
				"because %s is false,\n  and prune deletes what its %s.apply has applied\n",
				r.Name, u.Patch, u.Condition, u.Apply)
		}
	}
	return b.String()
}

// describeSharing returns a line for each apply that names the same targets for all objects of its
// source.
func describeSharing(p *plan.Plan) string {
	var b strings.Builder
	for _, r := range p.Rules {
		for _, apply := range r.Shares() {
			what := "Each of them overwrites what another\n  one applied"
			switch {
			case r.Owns():
				what = "The first of them owns the target, and the changes of the\n  others become dead letters"
			case r.Prune != nil: // a schedule
				what += ", and deletes it when it goes"
			}
			fmt.Fprintf(&b, "rule %s applies the same target for all objects of source %s: nothing of them "+
				"is in the name\n  and namespace of its %s.apply. %s\n", r.Name, r.Source.Name, apply, what)
		}
	}
	return b.String()
}

// targetName returns a resource as manifests write it: apps/v1/deployments/status.
func targetName(resource schema.GroupVersionResource, subresource string) string {
	if subresource == "" {
		return object.ResourceName(resource)
	}
	return object.ResourceName(resource) + "/" + subresource
}
