package config

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

// json turns any YAML value into JSON. Numbers of any size stay as the author wrote them, if that
// is JSON. Dates become strings. Keys keep their order.
func (r *reader) json(n *yaml.Node, what string) json.RawMessage {
	if n == nil || r.reported[n] {
		return nil
	}
	before := len(r.mistakes)
	out := r.appendJSON(nil, n, what)
	if len(r.mistakes) > before {
		return nil
	}
	return out
}

// appendJSON recurses no deeper than vet allows.
func (r *reader) appendJSON(out []byte, n *yaml.Node, what string) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		out = append(out, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendJSONString(out, n.Content[i].Value), ':')
			out = r.appendJSON(out, n.Content[i+1], what)
		}
		return append(out, '}')
	case yaml.SequenceNode:
		out = append(out, '[')
		for i, item := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			out = r.appendJSON(out, item, what)
		}
		return append(out, ']')
	}
	switch n.ShortTag() {
	case "!!null":
		return append(out, "null"...)
	case "!!bool":
		var v bool
		_ = n.Decode(&v) // the parser itself gives that tag
		return strconv.AppendBool(out, v)
	case "!!int", "!!float":
		return r.appendJSONNumber(out, n, what)
	}
	return appendJSONString(out, n.Value)
}

// jsonNumber is the number of RFC 8259.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (r *reader) appendJSONNumber(out []byte, n *yaml.Node, what string) []byte {
	if jsonNumber.MatchString(n.Value) {
		return append(out, n.Value...)
	}
	var v any
	if err := n.Decode(&v); err != nil {
		r.mistake(n, "%s: %s is not a number", what, quote(n.Value))
		return out
	}
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		r.mistake(n, "%s: %s cannot be written as JSON", what, quote(n.Value))
		return out
	}
	number, _ := json.Marshal(v) // an int, int64, uint64 or finite float64
	return append(out, number...)
}

func appendJSONString(out []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // no string fails
	return append(out, quoted...)
}
