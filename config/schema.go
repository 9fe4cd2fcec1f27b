package config

import (
	"bytes"
	"encoding/json"

	"gopkg.in/yaml.v3"
)

// Schema returns the JSON Schema of one manifest (draft 7, which editors know best), from the tables
// by which Parse reads manifests. What the schema accepts may still be a mistake: it knows nothing of
// other manifests, of expressions, and of fields that exclude each other. What it refuses is one.
func Schema() []byte {
	var kindsThen []any
	definitions := node{}
	for _, kind := range kinds {
		definitions[kind] = mappingOf(specFields[kind]).schema()
		kindsThen = append(kindsThen, node{
			"if":   node{"properties": node{"kind": node{"const": kind}}, "required": []string{"kind"}},
			"then": node{"properties": node{"spec": node{"$ref": "#/definitions/" + kind}}},
		})
	}
	manifest := mappingOf(manifestFields).schema()
	manifest["allOf"] = kindsThen
	definitions["manifest"] = manifest
	// A CustomResourceDefinition may stand beside manifests, and a ConfigMap around them.
	isDefinition := node{
		"properties": node{
			"apiVersion": node{"type": "string", "pattern": "^apiextensions\\.k8s\\.io/"},
			"kind":       node{"const": "CustomResourceDefinition"},
		},
		"required": []string{"apiVersion", "kind"},
	}
	isConfigMap := node{
		"properties": node{
			"apiVersion": node{"const": "v1"}, "kind": node{"const": "ConfigMap"},
			"data": node{"type": "object", "not": node{ // not all names are others
				"propertyNames": node{"not": node{"type": "string", "pattern": `\.ya?ml$`}},
			}},
		},
		"required": []string{"apiVersion", "kind", "data"},
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(node{
		"$schema":     "http://json-schema.org/draft-07/schema#",
		"title":       "A manifest of informd",
		"type":        "object",
		"if":          node{"anyOf": []node{isDefinition, isConfigMap}},
		"else":        node{"$ref": "#/definitions/manifest"},
		"definitions": definitions,
	})
	if err != nil {
		panic(err) // it has strings, numbers, lists and maps only
	}
	return out.Bytes()
}

// node is a schema, or a part of one.
type node map[string]any

// notNull are the types of JSON but null: a field without a value is a mistake.
var notNull = []string{"string", "number", "boolean", "object", "array"}

func (f form) schema() node {
	out := node{"type": f.types}
	switch len(f.types) {
	case 0:
		out["type"] = notNull
	case 1:
		out["type"] = f.types[0]
	}
	if len(f.either) > 0 {
		var any []node
		for _, one := range f.either {
			any = append(any, one.schema())
		}
		out = node{"anyOf": any}
	}
	if f.example != "" {
		out["examples"] = []any{f.value()}
	}
	f.addBounds(out)
	f.addElements(out)
	f.addMembers(out)
	if f.orManifest {
		object := mappingOf(fieldsOfObject).schema()
		object["additionalProperties"] = true
		properties, _ := object["properties"].(node)
		for _, field := range f.fields {
			properties[field.name] = false // then it is a mapping of these fields
		}
		out = node{"anyOf": []node{out, object}}
	}
	return out
}

// value returns the example as JSON has it.
func (f form) value() (value any) {
	isText := len(f.types) > 0 && f.types[0] == "string"
	if isText || yaml.Unmarshal([]byte(f.example), &value) != nil {
		return f.example
	}
	return value
}

func (f form) addBounds(out node) {
	switch {
	case len(f.choices) == 1:
		out["const"] = f.choices[0]
	case f.choices != nil:
		out["enum"] = f.choices
	case f.pattern != "":
		out["pattern"] = f.pattern
	case len(f.types) == 1 && f.types[0] == "string" && !f.mayBeEmpty:
		out["pattern"] = `\S` // not blank
	}
	if b := f.whole; b != nil {
		out["minimum"], out["maximum"] = b.low, b.high
		if b.missing >= b.low {
			out["default"] = b.missing
		}
	}
	if b := f.span; b != nil {
		if b.missing > 0 {
			out["default"] = ShortDuration(b.missing)
		}
		if b.zero {
			out["minimum"], out["maximum"] = 0, 0
		}
	}
}

func (f form) addElements(out node) {
	if f.elements == nil {
		return
	}
	out["items"] = f.elements.schema()
	if !f.mayBeEmpty {
		out["minItems"] = 1
	}
	if f.isSet {
		out["uniqueItems"] = true
	}
	if f.most > 0 {
		out["maxItems"] = f.most
	}
}

func (f form) addMembers(out node) {
	if f.members != nil {
		out["additionalProperties"] = f.members.schema()
		if f.names != "" {
			out["propertyNames"] = node{"type": "string", "pattern": f.names}
		}
		if f.most > 0 {
			out["maxProperties"] = f.most
		}
	}
	if f.fields == nil {
		return
	}
	properties, required := node{}, []string{}
	for _, field := range f.fields {
		one := field.schema()
		one["description"] = field.about
		properties[field.name] = one
		if field.isRequired {
			required = append(required, field.name)
		}
	}
	out["properties"], out["additionalProperties"] = properties, false
	if len(required) > 0 {
		out["required"] = required
	}
}
