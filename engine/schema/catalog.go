package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Catalog has the types of resources. Once nobody adds to it any more, it is safe for concurrent
// use. A resource that is added twice, as by two versions of one CustomResourceDefinition, may be
// like either.
type Catalog struct {
	types    map[schema.GroupVersionResource]Type
	statuses answers // whether they have the subresource status
	scopes   answers // whether they are in namespaces
	served   map[schema.GroupVersion][]string
	kinds    map[schema.GroupVersionKind]string
	metadata *node // ObjectMeta; nil: nothing is known of it
}

// NewCatalog returns an empty Catalog. CustomResourceDefinitions do not describe metadata: metadata
// comes from like, which may be nil.
func NewCatalog(like *Catalog) *Catalog {
	c := &Catalog{
		types:    make(map[schema.GroupVersionResource]Type),
		statuses: make(answers),
		scopes:   make(answers),
		served:   make(map[schema.GroupVersion][]string),
		kinds:    make(map[schema.GroupVersionKind]string),
	}
	if like != nil {
		c.metadata = like.metadata
	}
	return c
}

// Of returns the Type of a resource's objects. ok is false if the Catalog does not have it.
func (c *Catalog) Of(resource schema.GroupVersionResource) (t Type, ok bool) {
	t, ok = c.types[resource]
	return t, ok
}

// answer is what is known of a question about a resource.
type answer uint8

const (
	unknown answer = iota // also where one definition says yes and another no
	yes
	no
)

// answers has what is known of a question, by resource.
type answers map[schema.GroupVersionResource]answer

func (a answers) set(of schema.GroupVersionResource, isSo bool) {
	is := no
	if isSo {
		is = yes
	}
	if before, ok := a[of]; ok && before != is {
		is = unknown
	}
	a[of] = is
}

// HasStatus reports whether a resource has the subresource status. With it, the API server drops what
// a write to the resource itself says about status, and what a write to the subresource says about
// other fields but metadata. known is false if the Catalog does not know.
func (c *Catalog) HasStatus(resource schema.GroupVersionResource) (has, known bool) {
	is := c.statuses[resource]
	return is == yes, is != unknown
}

// IsNamespaced reports whether the objects of a resource are in namespaces. known is false if the
// Catalog does not know.
func (c *Catalog) IsNamespaced(resource schema.GroupVersionResource) (is, known bool) {
	scope := c.scopes[resource]
	return scope == yes, scope != unknown
}

// ResourceOf returns the plural name of the resource whose objects have a kind, or "" if the Catalog
// does not have it.
func (c *Catalog) ResourceOf(kind schema.GroupVersionKind) string { return c.kinds[kind] }

// Len returns how many resources the Catalog has.
func (c *Catalog) Len() int { return len(c.types) }

// Resources returns the resources of a group and version, in no order.
func (c *Catalog) Resources(of schema.GroupVersion) []string { return c.served[of] }

func (c *Catalog) add(resource schema.GroupVersionResource, kind string, n *node) {
	if kind != "" {
		c.kinds[resource.GroupVersion().WithKind(kind)] = resource.Resource
	}
	t := Type{[]*node{n}}
	if before, ok := c.types[resource]; ok {
		t = Union(before, t)
	} else {
		of := resource.GroupVersion()
		c.served[of] = append(c.served[of], resource.Resource)
	}
	c.types[resource] = t
}

// definition is what this package reads of a CustomResourceDefinition.
type definition struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"names"`
		PreservesUnknown bool `json:"preserveUnknownFields"`
		Versions         []struct {
			Name   string `json:"name"`
			Schema struct {
				Root *property `json:"openAPIV3Schema"`
			} `json:"schema"`
			Subresources struct {
				Status *struct{} `json:"status"`
			} `json:"subresources"`
		} `json:"versions"`
	} `json:"spec"`
}

// IsDefinition reports whether a manifest with these fields is a CustomResourceDefinition.
func IsDefinition(apiVersion, kind string) bool {
	return kind == "CustomResourceDefinition" && strings.HasPrefix(apiVersion, "apiextensions.k8s.io/")
}

// AddDefinition adds the resources of a CustomResourceDefinition, in JSON. A version whose fields are
// not pruned, or a definition of apiextensions.k8s.io/v1beta1, may have any field.
func (c *Catalog) AddDefinition(text []byte) error {
	var d definition
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("it is no CustomResourceDefinition: %w", err)
	}
	switch {
	case !IsDefinition(d.APIVersion, d.Kind):
		return fmt.Errorf("it is no CustomResourceDefinition, but %q of %q", d.Kind, d.APIVersion)
	case d.Spec.Group == "" || d.Spec.Names.Plural == "" || len(d.Spec.Versions) == 0:
		return fmt.Errorf("the CustomResourceDefinition has no spec.group, spec.names.plural or " +
			"spec.versions")
	}
	isOpen := d.Spec.PreservesUnknown || d.APIVersion != "apiextensions.k8s.io/v1"
	for _, version := range d.Spec.Versions {
		n := new(node)
		if root := version.Schema.Root; root != nil && !isOpen {
			r := reading{metadata: c.metadata}
			if n = r.node(root); n.kinds&Map != 0 {
				r.identify(n)
			}
		}
		resource := schema.GroupVersionResource{
			Group: d.Spec.Group, Version: version.Name, Resource: d.Spec.Names.Plural,
		}
		c.add(resource, d.Spec.Names.Kind, n)
		if d.APIVersion == "apiextensions.k8s.io/v1" { // v1beta1 has them elsewhere, too
			c.statuses.set(resource, version.Subresources.Status != nil)
		}
		if scope := d.Spec.Scope; scope != "" {
			c.scopes.set(resource, scope == "Namespaced")
		}
	}
	return nil
}
