package ruletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/informd/informd/cmd/informd/cli"
)

// difference is one place where what came is not what the test expects.
type difference struct {
	Path string `json:"path"` // as payload.pods[0].name
	Want any    `json:"want"`
	Got  any    `json:"got"`
	// Note says what is wrong if the two values do not show it.
	Note string `json:"note,omitempty"`
}

// decode returns the value of JSON, with its numbers as they are written.
func decode(text json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	_ = decoder.Decode(&v) // the callers' JSON is valid, or empty
	return v
}

// eventDifferences compares an event that came with an expected one. A field that the test does not
// give is not compared, but for dead and error: a dead letter must be expected as one, and so must an
// expression that failed.
func eventDifferences(want, got map[string]any, exact bool) (out []difference) {
	for _, field := range slices.Sorted(maps.Keys(want)) {
		w, g := want[field], got[field]
		switch {
		case field == "dead", field == "error":
			reason, _ := g.(string)
			if text, _ := w.(string); reason == text || !exact && strings.Contains(reason, text) &&
				g != nil {
				continue
			}
			out = append(out, difference{Path: field, Want: w, Got: g})
		case field == "namespace" && w == "" && g == nil:
		case field == "items":
			out = append(out, itemDifferences(w, g, exact)...)
		default:
			out = appendDifferences(out, field, w, g, exact)
		}
	}
	if want["dead"] == nil && got["dead"] != nil {
		out = append(out, difference{Path: "dead", Got: got["dead"], Note: "it is a dead letter"})
	}
	if want["error"] == nil && got["error"] != nil {
		out = append(out, difference{Path: "error", Got: got["error"], Note: "an expression failed"})
	}
	return out
}

// itemDifferences compares the items of an event, each as an event.
func itemDifferences(want, got any, exact bool) (out []difference) {
	w, _ := want.([]any)
	g, _ := got.([]any)
	if len(w) != len(g) {
		return []difference{{
			Path: "items", Want: want, Got: got,
			Note: fmt.Sprintf("%d %s, want %d", len(g), cli.Plural(len(g), "item"), len(w)),
		}}
	}
	for i := range w {
		wanted, _ := w[i].(map[string]any)
		came, _ := g[i].(map[string]any)
		for _, d := range eventDifferences(wanted, came, exact) {
			d.Path = fmt.Sprintf("items[%d].%s", i, d.Path)
			out = append(out, d)
		}
	}
	return out
}

// appendDifferences compares two JSON values. Every member of want must be in got; if exact is set,
// got has no other. Lists have as many elements. A null is an absent member, and the other way
// round.
func appendDifferences(out []difference, path string, want, got any, exact bool) []difference {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(w)) {
			out = appendDifferences(out, member(path, name), w[name], g[name], exact)
		}
		if exact {
			for _, name := range slices.Sorted(maps.Keys(g)) {
				if _, ok := w[name]; !ok && g[name] != nil {
					out = append(out, difference{Path: member(path, name), Got: g[name]})
				}
			}
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok && !(got == nil && len(w) == 0) {
			break
		}
		if len(w) != len(g) {
			return append(out, difference{
				Path: path, Want: w, Got: g,
				Note: fmt.Sprintf("%d elements, want %d", len(g), len(w)),
			})
		}
		for i := range w {
			out = appendDifferences(out, fmt.Sprintf("%s[%d]", path, i), w[i], g[i], exact)
		}
		return out
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(w, g) {
			return out
		}
	default: // a string, a boolean or nil
		if isScalar(got) && want == got {
			return out
		}
	}
	return append(out, difference{Path: path, Want: want, Got: got})
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// maxExponent bounds the numbers that sameNumber computes with: 1e999999999 is a short text.
const maxExponent = 1000

func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	var values [2]*big.Rat
	for i, n := range []json.Number{a, b} {
		text := strings.ToLower(n.String())
		if at := strings.IndexByte(text, 'e'); at >= 0 {
			var exponent int
			if _, err := fmt.Sscan(text[at+1:], &exponent); err != nil ||
				exponent > maxExponent || exponent < -maxExponent {
				return false
			}
		}
		v, ok := new(big.Rat).SetString(text)
		if !ok {
			return false
		}
		values[i] = v
	}
	return values[0].Cmp(values[1]) == 0
}

// member returns the path of a member of a mapping.
func member(path, name string) string {
	plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') &&
			(r < 'A' || r > 'Z')
	}) < 0
	if plain {
		return path + "." + name
	}
	return fmt.Sprintf("%s[%q]", path, name)
}
