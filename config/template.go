package config

import (
	"encoding/json"

	"gopkg.in/yaml.v3"
)

// maxTemplateDepth bounds the mappings and lists of a template inside each other.
const maxTemplateDepth = 16

// Template is the shape of a JSON value that is made of constants and expressions. Kind tells which of the other fields
// counts. Numbers, true, false and null are constants.
type Template struct {
	Kind   TemplateKind
	Text   Text            // a string with expressions in it, as ${…}, or none; of JSON, what was written
	JSON   json.RawMessage // numbers as they are written
	Fields []TemplateField // in the order of the file
	Items  []*Template
}

// TemplateKind tells the shapes of a Template apart.
type TemplateKind uint8

const (
	TemplateText TemplateKind = iota
	TemplateJSON
	TemplateFields
	TemplateItems
)

// TemplateField is one member of a mapping.
type TemplateField struct {
	Name  Text
	Value *Template
}

// template reads any YAML value, or gives nil where it is absent or mistaken.
func (r *reader) template(n *yaml.Node, what string) *Template { return r.templateAt(n, what, 1) }

func (r *reader) templateAt(n *yaml.Node, what string, depth int) *Template {
	if n == nil || r.reported[n] {
		return nil
	}
	if n.Kind != yaml.ScalarNode && depth > maxTemplateDepth {
		r.mistake(n, "%s is nested more than %d deep", what, maxTemplateDepth)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		t := &Template{Kind: TemplateFields}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if value := r.templateAt(n.Content[i+1], what, depth+1); value != nil {
				t.Fields = append(t.Fields, TemplateField{Name: r.text(key), Value: value})
			}
		}
		return t
	case yaml.SequenceNode:
		t := &Template{Kind: TemplateItems}
		for _, item := range n.Content {
			if value := r.templateAt(item, what, depth+1); value != nil {
				t.Items = append(t.Items, value)
			}
		}
		return t
	}
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float":
		value := r.json(n, what)
		if value == nil {
			return nil
		}
		return &Template{Kind: TemplateJSON, Text: r.text(n), JSON: value}
	}
	return &Template{Kind: TemplateText, Text: r.text(n)}
}
