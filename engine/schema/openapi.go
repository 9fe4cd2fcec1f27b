package schema

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// document is what this package reads of an OpenAPI v3 document.
type document struct {
	Paths      map[string]operations `json:"paths,omitempty"`
	Components struct {
		Schemas map[string]*property `json:"schemas,omitempty"`
	} `json:"components"`
}

// operations are those of one path. A path that lists objects says which resource they are.
type operations struct {
	Get *operation `json:"get,omitempty"`
}

type operation struct {
	Action string `json:"x-kubernetes-action,omitempty"`
	Kind   *kind  `json:"x-kubernetes-group-version-kind,omitempty"`
}

type kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// property is a schema, as OpenAPI and CustomResourceDefinitions write it. It has many fields because
// it mirrors their format.
type property struct {
	Ref              string               `json:"$ref,omitempty"`
	Type             string               `json:"type,omitempty"`
	Format           string               `json:"format,omitempty"`
	Properties       map[string]*property `json:"properties,omitempty"`
	Additional       *orBool              `json:"additionalProperties,omitempty"`
	Items            *property            `json:"items,omitempty"`
	AllOf            []*property          `json:"allOf,omitempty"`
	AnyOf            []*property          `json:"anyOf,omitempty"`
	OneOf            []*property          `json:"oneOf,omitempty"`
	Enum             []any                `json:"enum,omitempty"`
	PreservesUnknown bool                 `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	IsIntOrString    bool                 `json:"x-kubernetes-int-or-string,omitempty"`
	IsObject         bool                 `json:"x-kubernetes-embedded-resource,omitempty"`
	Kinds            []kind               `json:"x-kubernetes-group-version-kind,omitempty"`
}

// orBool is a schema, or true for any value and false for none.
type orBool struct {
	allowed bool
	schema  *property
}

func (b *orBool) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &b.allowed) == nil {
		return nil
	}
	b.allowed = true
	return json.Unmarshal(text, &b.schema)
}

func (b *orBool) MarshalJSON() ([]byte, error) {
	if b.schema == nil {
		return json.Marshal(b.allowed)
	}
	return json.Marshal(b.schema)
}

// AddOpenAPI adds the resources of an OpenAPI v3 document, in JSON, as the API server serves one per
// group and version. It keeps no part of the text.
func (c *Catalog) AddOpenAPI(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("it is no OpenAPI document: %w", err)
	}
	r := reading{
		schemas: d.Components.Schemas, named: make(map[string]*node), metadata: c.metadata,
	}
	types := make(map[kind]*node)
	for name, p := range d.Components.Schemas {
		for _, k := range p.Kinds {
			types[k] = r.definition(name)
		}
	}
	if _, ok := d.Components.Schemas[metadata]; ok && c.metadata == nil {
		c.metadata = r.definition(metadata)
	}
	haveStatus, known := d.withStatus()
	for at, operations := range d.Paths {
		resource, k, ok := operations.lists(at)
		if n := types[k]; ok && n != nil {
			c.add(resource, k.Kind, n)
			if known {
				c.statuses.set(resource, haveStatus[at])
			}
			if is, known := d.isNamespaced(at); known {
				c.scopes.set(resource, is)
			}
		}
	}
	return nil
}

const inNamespace = "/namespaces/{namespace}/"

// pathOfOne returns the path of a single object. list is the path that lists the objects of all
// namespaces.
func pathOfOne(list string, isNamespaced bool) string {
	if isNamespaced {
		list = path.Dir(list) + inNamespace + path.Base(list)
	}
	return list + "/{name}"
}

// isNamespaced reports whether the objects that a path lists are in namespaces. known is false if the
// document does not say, and for the list of one namespace.
func (d *document) isNamespaced(list string) (is, known bool) {
	if strings.Contains(list, inNamespace) {
		return false, false
	}
	if _, ok := d.Paths[pathOfOne(list, true)]; ok {
		return true, true
	}
	_, ok := d.Paths[pathOfOne(list, false)]
	return false, ok
}

// statusPath ends the path of the subresource status, behind the path that lists the objects.
const statusPath = "/{name}/status"

// withStatus returns the paths that list objects with the subresource status. known is false if the
// document has no paths of single objects, as one that an older informd condensed.
func (d *document) withStatus() (lists map[string]bool, known bool) {
	lists = make(map[string]bool)
	for at := range d.Paths {
		known = known || strings.Contains(at, "/{name}")
		if list, ok := strings.CutSuffix(at, statusPath); ok {
			lists[list] = true
			// The objects of all namespaces have a list of their own.
			lists[strings.Replace(list, inNamespace, "/", 1)] = true
		}
	}
	return lists, known
}

// metadata is the name of ObjectMeta in documents.
const metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// lists returns which resource a path lists, and its kind.
func (o operations) lists(at string) (schema.GroupVersionResource, kind, bool) {
	name := path.Base(at)
	if o.Get == nil || o.Get.Action != "list" || o.Get.Kind == nil || strings.HasPrefix(name, "{") {
		return schema.GroupVersionResource{}, kind{}, false
	}
	k := *o.Get.Kind
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: name}, k, true
}

// reading makes nodes of schemas that may refer to each other.
type reading struct {
	schemas  map[string]*property
	named    map[string]*node
	metadata *node // of a whole object; nil: anything
	depth    int   // how many calls of node have not returned
}

// maxDepth bounds how deep schemas are followed, through references as well. An API server that
// serves longer chains must not end the process, and nobody has objects of that depth.
const maxDepth = 10_000

// definition returns the node of a named schema. It may be in the making, because schemas may refer
// to themselves.
func (r *reading) definition(name string) *node {
	if n := r.named[name]; n != nil {
		return n
	}
	n := new(node)
	r.named[name] = n
	if p := r.schemas[name]; p != nil {
		*n = *r.node(p)
	}
	return n
}

// node returns the node of a schema. One that it does not understand, or beyond maxDepth, may be
// anything.
func (r *reading) node(p *property) *node {
	if p == nil || r.depth == maxDepth {
		return new(node)
	}
	r.depth++
	defer func() { r.depth-- }()
	if name, ok := strings.CutPrefix(p.Ref, toDefinition); ok {
		return r.definition(name)
	}
	switch {
	case p.Ref != "":
		return new(node)
	case p.IsIntOrString || p.Format == "int-or-string":
		return &node{kinds: String | Number}
	case p.Type == "" && len(p.Properties) == 0:
		return r.untyped(p)
	}
	switch p.Type {
	case "string":
		return &node{kinds: String, enum: texts(p.Enum)}
	case "integer", "number":
		return &node{kinds: Number}
	case "boolean":
		return &node{kinds: Bool}
	case "array":
		n := &node{kinds: List}
		if p.Items != nil {
			n.items = r.node(p.Items)
		}
		return n
	case "object", "":
		return r.object(p)
	}
	return new(node)
}

// untyped returns the node of a schema that says nothing itself, except what it may be instead.
// Beside a type, such lists only restrict values further.
func (r *reading) untyped(p *property) *node {
	if p.PreservesUnknown {
		return new(node)
	}
	if len(p.AllOf) == 1 && len(p.AnyOf)+len(p.OneOf) == 0 {
		return r.node(p.AllOf[0])
	}
	if len(p.AllOf) > 0 || len(p.AnyOf) > 0 && len(p.OneOf) > 0 {
		return new(node)
	}
	n := new(node)
	for _, in := range slices.Concat(p.AnyOf, p.OneOf) {
		n.either = append(n.either, r.node(in))
	}
	return n
}

func (r *reading) object(p *property) *node {
	n := &node{kinds: Map}
	if len(p.Properties) > 0 {
		n.fields = make(map[string]*node, len(p.Properties))
		for name, in := range p.Properties {
			n.fields[name] = r.node(in)
		}
		n.closed = !p.PreservesUnknown && p.Additional == nil
	}
	if p.Additional != nil && p.Additional.schema != nil {
		n.rest = r.node(p.Additional.schema)
	}
	if p.IsObject {
		r.identify(n)
	}
	return n
}

// identify gives a node the fields that every whole object has.
func (r *reading) identify(n *node) {
	if n.fields == nil {
		n.fields = make(map[string]*node)
	}
	for _, name := range []string{"apiVersion", "kind"} {
		n.fields[name] = &node{kinds: String}
	}
	if n.fields["metadata"] = r.metadata; r.metadata == nil {
		n.fields["metadata"] = &node{kinds: Map}
	}
}

// texts returns the values of an enum, sorted, if all of them are strings, and else nil.
func texts(enum []any) []string {
	var out []string
	for _, v := range enum {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case nil: // beside nullable
		default:
			return nil
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
