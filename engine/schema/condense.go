package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Condense makes one OpenAPI document of several. It keeps what [Catalog.AddOpenAPI] reads of the
// resources that can be listed. Definitions of one name become one that allows what any of them
// allows, so the documents may come from servers of several versions. A resource has the subresource
// status if it has it in one of them.
func Condense(documents ...[]byte) ([]byte, error) {
	var out document
	out.Paths = make(map[string]operations)
	out.Components.Schemas = make(map[string]*property)
	wanted := []string{metadata}
	for _, text := range documents {
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("it is no OpenAPI document: %w", err)
		}
		named := make(map[kind]string)
		for name, p := range d.Components.Schemas {
			for _, k := range p.Kinds {
				named[k] = name
			}
			p = plain(p)
			if before := out.Components.Schemas[name]; before != nil {
				p = merged(before, p)
			}
			out.Components.Schemas[name] = p
		}
		haveStatus, _ := d.withStatus()
		for at, of := range d.Paths {
			resource, k, ok := of.lists(at)
			if !ok || named[k] == "" {
				continue
			}
			prefix := "/apis/" + k.Group + "/"
			if k.Group == "" {
				prefix = "/api/"
			}
			list := prefix + k.Version + "/" + resource.Resource
			out.Paths[list] = of
			if is, known := d.isNamespaced(at); known {
				out.Paths[pathOfOne(list, is)] = operations{}
			}
			if haveStatus[at] {
				out.Paths[list+statusPath] = operations{}
			}
			wanted = append(wanted, named[k])
		}
	}
	reached := make(map[string]bool)
	for _, name := range wanted {
		out.reach(name, reached)
	}
	maps.DeleteFunc(out.Components.Schemas,
		func(name string, _ *property) bool { return !reached[name] })
	return json.Marshal(out)
}

const toDefinition = "#/components/schemas/"

// reach adds the name of a definition, and those that it refers to, also indirectly.
func (d *document) reach(name string, reached map[string]bool) {
	waiting := []string{name}
	var walk func(p *property)
	walk = func(p *property) {
		if p == nil {
			return
		}
		if name, ok := strings.CutPrefix(p.Ref, toDefinition); ok {
			waiting = append(waiting, name)
		}
		for _, in := range p.Properties {
			walk(in)
		}
		for _, in := range slices.Concat([]*property{p.Items}, p.AllOf, p.AnyOf, p.OneOf) {
			walk(in)
		}
		if p.Additional != nil {
			walk(p.Additional.schema)
		}
	}
	for len(waiting) > 0 {
		last := len(waiting) - 1
		name, waiting = waiting[last], waiting[:last]
		if p := d.Components.Schemas[name]; p != nil && !reached[name] {
			reached[name] = true
			walk(p)
		}
	}
}

// plain returns a schema without what reading.node does not read.
func plain(p *property) *property {
	if p == nil {
		return nil
	}
	if p.Ref != "" {
		return &property{Ref: p.Ref}
	}
	all := func(list []*property) (out []*property) {
		for _, in := range list {
			out = append(out, plain(in))
		}
		return out
	}
	isTyped := p.Type != "" || len(p.Properties) > 0
	if !isTyped && len(p.AllOf) == 1 && len(p.AnyOf)+len(p.OneOf) == 0 && !p.PreservesUnknown {
		return plain(p.AllOf[0])
	}
	out := *p
	if out.Format != "int-or-string" {
		out.Format = ""
	}
	if isTyped {
		out.AllOf, out.AnyOf, out.OneOf = nil, nil, nil
	} else {
		out.AllOf, out.AnyOf, out.OneOf = all(p.AllOf), all(p.AnyOf), all(p.OneOf)
	}
	if out.Type != "string" || len(texts(p.Enum)) == 0 {
		out.Enum = nil
	}
	out.Items, out.Properties = plain(p.Items), nil
	for name, in := range p.Properties {
		if out.Properties == nil {
			out.Properties = make(map[string]*property)
		}
		out.Properties[name] = plain(in)
	}
	if p.Additional != nil {
		out.Additional = &orBool{p.Additional.allowed, plain(p.Additional.schema)}
	}
	return &out
}

// merged returns a schema that allows whatever either of two plain schemas allows.
func merged(a, b *property) *property {
	switch {
	case a == nil || b == nil:
		return new(property)
	case reflect.DeepEqual(a, b):
		return a
	case a.Ref != "" || b.Ref != "" || a.Type != b.Type || a.Type == "" ||
		a.Format != b.Format || a.IsIntOrString != b.IsIntOrString:
		return &property{AnyOf: []*property{a, b}}
	}
	out := *a
	out.Kinds = slices.Clone(a.Kinds)
	for _, k := range b.Kinds {
		if !slices.Contains(out.Kinds, k) {
			out.Kinds = append(out.Kinds, k)
		}
	}
	if out.Enum = nil; a.Enum != nil && b.Enum != nil {
		for _, text := range texts(slices.Concat(a.Enum, b.Enum)) {
			out.Enum = append(out.Enum, text)
		}
	}
	if a.Items != nil || b.Items != nil {
		out.Items = merged(a.Items, b.Items)
	}
	if isMap := a.Type == "object"; !isMap {
		return &out
	}
	if out.Properties = maps.Clone(a.Properties); out.Properties == nil {
		out.Properties = make(map[string]*property)
	}
	for name, in := range b.Properties {
		if before := out.Properties[name]; before != nil {
			in = merged(before, in)
		}
		out.Properties[name] = in
	}
	out.PreservesUnknown = a.PreservesUnknown || b.PreservesUnknown ||
		len(a.Properties) == 0 || len(b.Properties) == 0
	if !reflect.DeepEqual(a.Additional, b.Additional) {
		out.Additional = &orBool{allowed: true}
	}
	return &out
}
