package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Of returns the rights that a plan needs, in order. None covers another. keepsState says that the
// daemon has a state directory.
func Of(p *plan.Plan, keepsState bool) []Need {
	c := &collector{needs: make(map[Right]*Need)}
	if keepsState {
		system := Right{Verb: "get", Resource: "namespaces", Name: "kube-system"}
		c.add(system, Reason{By: "informd, to tell this cluster's state from another's"})
	}
	for _, s := range p.Sources {
		c.source(s)
	}
	for _, r := range p.Rules {
		if r.Actions != nil {
			c.rule(r)
		}
	}
	for _, h := range p.Handlers {
		for i, g := range h.Write {
			c.grant(g, fmt.Sprintf("Handler %s, access.write[%d]", h.Name, i))
		}
	}
	return c.folded()
}

// Unknown returns what Of cannot know of a plan, a sentence each.
func Unknown(p *plan.Plan) (sentences []string) {
	for _, h := range p.Handlers {
		for _, name := range h.Env {
			if name == "KUBECONFIG" || name == "KUBERNETES_SERVICE_HOST" {
				sentences = append(sentences, fmt.Sprintf("Handler %s gets %s from informd. If it asks "+
					"the API server itself, as kubectl does, add the rights that it needs.", h.Name, name))
				break
			}
		}
	}
	return sentences
}

func (c *collector) source(s *plan.Source) {
	why := Reason{By: "Source " + s.Name}
	for _, in := range s.Informers {
		if in.Namespace == "" && exactly(in.FieldSelector, "metadata.namespace") != "" {
			why.Wide = "metadata.namespace is in its fieldSelector; in its namespaces a Role would do"
		}
		for _, verb := range []string{"list", "watch"} {
			c.add(Right{
				Verb: verb, Group: s.Resource.Group, Resource: s.Resource.Resource,
				Namespace: in.Namespace, Name: exactly(in.FieldSelector, "metadata.name"),
			}, why)
		}
	}
}

func (c *collector) rule(r *plan.Rule) {
	own := ownPlace(r)
	for i := range r.Actions.Each {
		t := &r.Actions.Each[i]
		if t.Resource.Resource == "" { // its kind is not served
			continue
		}
		p := placeOf(t, r, own)
		w := write{
			resource: t.Resource, subresource: t.Subresource, place: p, own: own,
			why: Reason{By: fmt.Sprintf("Rule %s, %s.%s", r.Name, t.Label, t.Verb), Wide: p.wide},
			// An object that is gone is not applied, unless the rule wants just that.
			creates: !p.own || r.Actions.AsksFor(t, delta.Deleted),
			// The event has the uid of its own object, and an Event needs nothing else.
			reads: t.Verb != handler.ActionEvent || !p.own && t.UID == nil,
		}
		c.write(t.Verb, w)
		if t.Resource.Group == rbacGroup && t.Subresource == "" {
			c.granting(t.Verb, w, t.Object)
		}
		if slices.Contains(r.Prune, t.Resource) && t.Verb == handler.ActionApply && t.Subresource == "" {
			w.why.By = fmt.Sprintf("Rule %s, prune", r.Name)
			c.write(handler.ActionDelete, w)
			everywhere := Right{Verb: "list", Group: t.Resource.Group, Resource: t.Resource.Resource}
			c.add(everywhere, Reason{By: w.why.By})
		}
	}
}

// write is what an action or a grant of a handler changes.
type write struct {
	resource    schema.GroupVersionResource
	subresource string
	place       // of the objects
	own         place
	why         Reason
	creates     bool // an apply may create
	reads       bool // it has to look at the object
}

// write adds the rights that a verb of an action needs.
func (c *collector) write(verb string, w write) {
	switch verb {
	case handler.ActionApply:
		c.each("patch", w.subresource, w)
		if w.subresource == "" && w.creates {
			c.each("create", "", w)
		}
	case handler.ActionCreate:
		unnamed := w
		unnamed.names = nil
		c.each("create", "", unnamed)
	case handler.ActionPatch:
		c.each("patch", w.subresource, w)
	case handler.ActionDelete:
		c.each("delete", "", w)
	case handler.ActionEvent:
		c.event(w)
	}
	if w.reads {
		c.each("get", "", w)
	}
}

// each adds a right for each namespace and name.
func (c *collector) each(verb, subresource string, w write) {
	for _, namespace := range orAny(w.namespaces) {
		for _, name := range orAny(w.names) {
			c.add(Right{
				Verb: verb, Group: w.resource.Group, Resource: w.resource.Resource,
				Subresource: subresource, Namespace: namespace, Name: name,
			}, w.why)
		}
	}
}

// orAny returns the values, or "" if there are none or too many.
func orAny(values []string) []string {
	if len(values) == 0 || len(values) > maxNames {
		return []string{""}
	}
	return values
}

// event adds the right to record an Event about an object. An Event about an object without a
// namespace is in the namespace default.
func (c *collector) event(w write) {
	events := w
	events.resource, events.names = schema.GroupVersionResource{Resource: "events"}, nil
	if len(w.namespaces) == 0 && w.wide == "" {
		switch scopeOf(w.resource.Group, w.resource.Resource) {
		case clusterWide:
			events.namespaces = []string{"default"}
		case unknown:
			events.why.Wide = fmt.Sprintf("if %s have no namespaces, the namespace default is enough",
				w.resource.Resource)
		}
	}
	c.each("create", "", events)
}

// grant adds what a handler may ask for.
func (c *collector) grant(g config.Grant, by string) {
	w := write{
		resource: g.Resource, subresource: g.Subresource, creates: true, reads: true,
		place: place{namespaces: g.Namespaces, names: g.Names},
	}
	wide := ""
	if at := slices.IndexFunc(g.Names, isPattern); at >= 0 {
		w.names = nil
		wide = fmt.Sprintf("RBAC knows no pattern such as %s: informd itself keeps to the names",
			g.Names[at])
	}
	for _, verb := range g.Verbs {
		w.why = Reason{By: by + " (" + verb + ")", Wide: wide}
		if verb == handler.ActionCreate && len(g.Names) > 0 {
			w.why.Wide = cmp.Or(wide, "RBAC cannot tie create to a name: informd itself does")
		}
		c.write(verb, w)
		if g.Resource.Group == rbacGroup && g.Subresource == "" {
			c.granting(verb, w, nil)
		}
	}
}

func isPattern(name string) bool { return strings.ContainsAny(name, `*?[\`) }

const rbacGroup = "rbac.authorization.k8s.io"

// granting adds the rights to write Roles and bindings, which depend on what these grant. object is
// the template of an apply or a create, or nil.
func (c *collector) granting(verb string, w write, object *rule.Template) {
	if verb == handler.ActionDelete || verb == handler.ActionEvent {
		return
	}
	add := func(what Right) {
		for _, namespace := range orAny(w.namespaces) {
			what.Group, what.Namespace = rbacGroup, namespace
			need := c.add(what, w.why)
			need.Unless = "informd has the rights itself that it grants"
		}
	}
	switch w.resource.Resource {
	case "roles", "clusterroles":
		names := w.names
		if verb == handler.ActionCreate {
			names = nil
		}
		for _, name := range orAny(names) {
			add(Right{Verb: "escalate", Resource: w.resource.Resource, Name: name})
		}
	case "rolebindings", "clusterrolebindings":
		kind, name := roleRef(object)
		for _, k := range []string{"Role", "ClusterRole"} {
			if (kind == "" || kind == k) && (k == "ClusterRole" || w.resource.Resource == "rolebindings") {
				add(Right{Verb: "bind", Resource: strings.ToLower(k) + "s", Name: name})
			}
		}
	}
}

// roleRef returns the kind and name of the role that a binding refers to; "" if not constant.
func roleRef(object *rule.Template) (kind, name string) {
	if object == nil {
		return "", ""
	}
	ref := member(object, "roleRef")
	if ref == nil {
		return "", ""
	}
	for field, to := range map[string]*string{"kind": &kind, "name": &name} {
		if t := member(ref, field); t != nil && t.Program == nil {
			if can, _, _ := values(t, field, nil); len(can) == 1 {
				*to = can[0]
			}
		}
	}
	return kind, name
}
