package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxValueDepth bounds how deep the mappings and lists of a Value nest.
const maxValueDepth = 16

// Value is a payload, or a template of an action, as the manifest has it: a JSON value with
// expressions in it. Kind says which of the other fields count.
type Value struct {
	Kind    ValueKind
	Text    Text            // of an expression, a template or a constant: what the author wrote
	JSON    json.RawMessage // of a constant; numbers stay as the author wrote them
	Members []Member        // of a mapping, in the order of the file
	Items   []*Value        // of a list
}

// ValueKind tells the kinds of a Value apart.
type ValueKind uint8

const (
	// ValueExpression is an expression: any scalar of a payload but a template.
	ValueExpression ValueKind = iota
	// ValueTemplate is a text that may have expressions in it, each as ${…}: any string of an
	// action, and each string of a payload that contains ${.
	ValueTemplate
	// ValueConstant is a number, true, false or null of an action, and any scalar of an object in a
	// test.
	ValueConstant
	ValueMapping
	ValueList
)

// Literal returns the JSON of a value that nobody evaluates: its texts stand for themselves.
func (v *Value) Literal() json.RawMessage { return v.appendLiteral(nil) }

func (v *Value) appendLiteral(out []byte) []byte {
	switch v.Kind {
	case ValueConstant:
		return append(out, v.JSON...)
	case ValueMapping:
		out = append(out, '{')
		for i, m := range v.Members {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendJSONString(out, m.Name.String()), ':')
			out = m.Value.appendLiteral(out)
		}
		return append(out, '}')
	case ValueList:
		out = append(out, '[')
		for i, item := range v.Items {
			if i > 0 {
				out = append(out, ',')
			}
			out = item.appendLiteral(out)
		}
		return append(out, ']')
	}
	return appendJSONString(out, v.Text.String())
}

// Member is one member of a mapping. Its name is a template without expressions.
type Member struct {
	Name  Text
	Value *Value
}

// valueReader reads one Value. Its methods return nil where they report a mistake.
type valueReader struct {
	*reader
	field  string // the manifest's field, as spec.payload
	scalar func(n *yaml.Node, path string) *Value
}

// payload reads a payload: its strings are expressions, or templates if they contain ${.
func (r *reader) payload(n *yaml.Node) *Value {
	return valueReader{r, "spec.payload", func(n *yaml.Node, path string) *Value {
		if n.ShortTag() == "!!str" && strings.Contains(n.Value, "${") {
			return &Value{Kind: ValueTemplate, Text: r.text(n)}
		}
		text := r.expression(n, path)
		if text.IsZero() {
			return nil
		}
		return &Value{Kind: ValueExpression, Text: text}
	}}.value(n, "spec.payload", 1)
}

// template reads a template of an action: its strings are templates, other scalars are constants.
func (r *reader) template(n *yaml.Node, path string) *Value {
	return valueReader{r, path, func(n *yaml.Node, path string) *Value {
		switch n.ShortTag() {
		case "!!null", "!!bool", "!!int", "!!float":
			constant := r.json(n, path)
			if constant == nil {
				return nil
			}
			return &Value{Kind: ValueConstant, Text: r.text(n), JSON: constant}
		}
		return &Value{Kind: ValueTemplate, Text: r.text(n)}
	}}.value(n, path, 1)
}

// literal reads a value whose strings are not templates. It recurses no deeper than vet allows.
func (r *reader) literal(n *yaml.Node, path string) *Value {
	if n == nil || r.reported[n] {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		v := &Value{Kind: ValueMapping}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if member := r.literal(n.Content[i+1], path); member != nil {
				v.Members = append(v.Members, Member{Name: r.text(n.Content[i]), Value: member})
			}
		}
		return v
	case yaml.SequenceNode:
		v := &Value{Kind: ValueList}
		for _, item := range n.Content {
			if item := r.literal(item, path); item != nil {
				v.Items = append(v.Items, item)
			}
		}
		return v
	}
	constant := r.json(n, path)
	if constant == nil {
		return nil
	}
	return &Value{Kind: ValueConstant, Text: r.text(n), JSON: constant}
}

// value reads any YAML value. It returns nil if n is absent or mistaken.
func (r valueReader) value(n *yaml.Node, path string, depth int) *Value {
	if n == nil || r.reported[n] {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		return r.scalar(n, path)
	}
	if depth > maxValueDepth {
		r.mistake(n, "%s is nested more than %d deep", r.field, maxValueDepth)
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		v := &Value{Kind: ValueList}
		for i, item := range n.Content {
			if item := r.value(item, fmt.Sprintf("%s[%d]", path, i), depth+1); item != nil {
				v.Items = append(v.Items, item)
			}
		}
		return v
	}
	v := &Value{Kind: ValueMapping}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		member := r.value(n.Content[i+1], path+"."+clip(name.Value, maxQuoted), depth+1)
		if member != nil {
			v.Members = append(v.Members, Member{Name: r.text(name), Value: member})
		}
	}
	return v
}
