package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/informd/informd/plugins/handler/nearest"
)

// Kinds returns the plural name of the resource whose objects have a kind, or "" if it does not know
// the kind.
type Kinds func(schema.GroupVersionKind) string

// kindName matches the names that a CustomResourceDefinition may give to a kind.
var kindName = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9]{0,62}$`)

// isManifest reports whether n, the value of apply or create, is the object itself, and not a mapping
// of resource and object.
func isManifest(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	apiVersion, kind := identity(n)
	hasMetadata := child(n, "metadata") != nil
	switch {
	case apiVersion != nil && kind != nil && hasMetadata: // object and resource may be fields of it
		return true
	case child(n, "object") != nil:
		return false
	}
	return apiVersion != nil || kind != nil || hasMetadata && child(n, "resource") == nil
}

// manifestOf reads the object of an apply or a create that stands below the verb as a manifest. Its
// resource follows from apiVersion and kind once all files are read: see nameKinds.
func (r *reader) manifestOf(a *Action, n *yaml.Node, what string) {
	resource := child(n, "resource")
	if resource != nil && resource.Kind == yaml.ScalarNode && strings.Contains(resource.Value, "/") {
		r.mistake(resource, "%s.resource goes with %[1]s.object: leave it out, because apiVersion "+
			"and kind name the resource, or write {resource: …, object: …}", what)
		return
	}
	a.Object = r.object(n, what)
	apiVersion, kind := identity(n)
	version := r.constant(apiVersion, a.At, what+".apiVersion")
	name := r.constant(kind, a.At, what+".kind")
	if version == "" || name == "" {
		return
	}
	of, err := schema.ParseGroupVersion(version)
	fault := ""
	if err == nil {
		fault = notResource(of.WithResource("things"))
	}
	switch {
	case err != nil || fault != "":
		r.mistake(apiVersion, "%s.apiVersion %s is not an apiVersion such as v1 or apps/v1",
			what, quote(version))
	case !kindName.MatchString(name):
		r.mistake(kind, "%s.kind %s is not a kind such as ConfigMap", what, quote(name))
	case strings.HasSuffix(name, "List") && child(n, "items") != nil:
		r.mistake(kind, "a list is no object: write an action for each of its items, or one with forEach")
	default:
		a.Kind, a.KindAt = of.WithKind(name), r.text(kind)
		a.Resource, a.ResourceAt = of.WithResource(""), a.KindAt
	}
}

// constant reads a string of a manifest below a verb that informd must know before the rule runs. It
// reports a missing one at the verb.
func (r *reader) constant(n *yaml.Node, verb Text, what string) string {
	if n == nil {
		r.mistakes = append(r.mistakes, verb.Mistake(0, what+" is missing"))
		return ""
	}
	s := r.str(n, what)
	if strings.Contains(s, "${") {
		r.mistake(n, "%s must be a constant: informd must know before the rule runs which resources "+
			"it changes", what)
		return ""
	}
	return s
}

// nameKinds names the resources of the manifests below apply and create, as far as the
// CustomResourceDefinitions beside the manifests and Kubernetes' own kinds say them. It reports
// unknown kinds of the core group, to which nobody can add any.
func (p *parser) nameKinds() {
	defined := kindsOf(p.config.Definitions)
	p.config.NameKinds(func(kind schema.GroupVersionKind) string {
		return cmp.Or(defined[kind], builtInKinds()[kind])
	})
	p.config.eachAction(func(a *Action) {
		if a.isUnnamed() && a.Kind.Group == "" {
			p.mistakes = append(p.mistakes, a.KindAt.Mistake(0, unknownKind(a.Kind)))
		}
	})
}

// NameKinds names the resources that the kinds of manifests below apply and create have, as far as
// they have none yet and known knows them.
func (c *Config) NameKinds(known Kinds) {
	c.eachAction(func(a *Action) {
		if a.isUnnamed() {
			a.Resource.Resource = known(a.Kind)
		}
	})
}

// Named returns a copy of the configuration, without its tests, in which NameKinds has named more
// resources.
func (c *Config) Named(known Kinds) *Config {
	named := *c
	named.Rules = slices.Clone(c.Rules)
	for i := range named.Rules {
		named.Rules[i].Actions = slices.Clone(c.Rules[i].Actions)
	}
	named.Tests = nil
	named.NameKinds(known)
	return &named
}

// Unnamed returns the kinds whose resources nobody has named, in the order of the manifests.
func (c *Config) Unnamed() (kinds []schema.GroupVersionKind) {
	c.eachAction(func(a *Action) {
		if a.isUnnamed() && !slices.Contains(kinds, a.Kind) {
			kinds = append(kinds, a.Kind)
		}
	})
	return kinds
}

// MistakenKinds reports each kind whose resource nobody has named. give says how to give schemas.
func (c *Config) MistakenKinds(give string) (mistakes Mistakes) {
	c.eachAction(func(a *Action) {
		if !a.isUnnamed() || a.Kind.Group == "" { // Parse has reported it
			return
		}
		message := unknownKind(a.Kind)
		if message == "" {
			version := a.Kind.GroupVersion()
			message = fmt.Sprintf("no schema says which resource the kind %s of %s is: give its "+
				"CustomResourceDefinition with %s, or write {resource: %[2]s/PLURAL, object: …}",
				a.Kind.Kind, version, give)
		}
		mistakes = append(mistakes, a.KindAt.Mistake(0, message))
	})
	return mistakes
}

// isUnnamed reports whether the action has a kind whose resource nobody has named.
func (a *Action) isUnnamed() bool { return a.Kind.Kind != "" && a.Resource.Resource == "" }

// eachAction visits the actions of rules, and those of answers in tests.
func (c *Config) eachAction(visit func(*Action)) {
	for i := range c.Rules {
		for k := range c.Rules[i].Actions {
			visit(&c.Rules[i].Actions[k])
		}
	}
	for i := range c.Tests {
		for _, step := range c.Tests[i].Steps {
			if step.Answer == nil {
				continue
			}
			for k := range step.Answer.Actions {
				visit(&step.Answer.Actions[k])
			}
		}
	}
}

// kindsOf returns the resources of CustomResourceDefinitions, by kind.
func kindsOf(definitions []Definition) map[schema.GroupVersionKind]string {
	all := make(map[schema.GroupVersionKind]string)
	for _, one := range definitions {
		var d struct {
			Spec struct {
				Group    string
				Names    struct{ Kind, Plural string }
				Versions []struct{ Name string }
			}
		}
		if json.Unmarshal(one.JSON, &d) != nil {
			continue // whoever reads the schemas reports it
		}
		for _, v := range d.Spec.Versions {
			kind := schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}
			if resourceName.MatchString(d.Spec.Names.Plural) {
				all[kind] = d.Spec.Names.Plural
			}
		}
	}
	return all
}

// builtInKinds returns the resources of Kubernetes' own kinds.
var builtInKinds = sync.OnceValue(func() map[schema.GroupVersionKind]string {
	all := make(map[schema.GroupVersionKind]string)
	for line := range strings.Lines(strings.TrimSpace(ownKinds)) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		resource, _ := parseResource(name)
		all[resource.GroupVersion().WithKind(kind)] = resource.Resource
	}
	return all
})

// unknownKind says that there is no such kind, and what its author probably meant. It returns "" for a
// kind of a group that others than Kubernetes may have, if nobody can tell.
func unknownKind(unknown schema.GroupVersionKind) string {
	var beside []string                     // kinds of the same group and version
	elsewhere := ""                         // the best apiVersion of a kind of that name
	isOurs := unknown.Group == "extensions" // Kubernetes itself has, or had, kinds of the group
	for kind := range builtInKinds() {
		version := kind.GroupVersion().String()
		switch {
		case kind.GroupVersion() == unknown.GroupVersion():
			beside = append(beside, kind.Kind)
		case kind.Kind == unknown.Kind && (elsewhere == "" || isBetter(version, elsewhere)):
			elsewhere = version
		}
		isOurs = isOurs || kind.Group == unknown.Group
	}
	if !isOurs { // Knative has a Service, too
		return ""
	}
	slices.Sort(beside)
	near := nearest.Name(unknown.Kind, beside)
	message := fmt.Sprintf("there is no kind %s in %s", unknown.Kind, unknown.GroupVersion())
	switch {
	case elsewhere != "":
		return message + ": write apiVersion: " + elsewhere
	case near != "":
		return message + didYouMean(near)
	case unknown.Group == "":
		return message
	}
	return ""
}

// isBetter reports whether an apiVersion is more stable than another one; of two that are equally
// stable, the shorter one is better.
func isBetter(a, b string) bool {
	if by := version.CompareKubeAwareVersionStrings(path.Base(a), path.Base(b)); by != 0 {
		return by > 0
	}
	return len(a) < len(b)
}
