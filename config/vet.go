package config

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/informd/informd/internal/othersyntax"
)

// vet checks what holds everywhere in a document: no anchors, aliases, merge keys and tags; keys
// that are distinct strings; bounded depth. It marks nodes that fail as reported, so that nothing
// more is said about them. It returns false if the document must not be read any further.
func (r *reader) vet(root *yaml.Node) bool {
	if second := secondManifest(root); second != nil {
		r.mistake(second, "another manifest begins here: write a line --- before it")
		return false
	}
	return r.vetNode(root, 1)
}

// secondManifest returns where a second manifest begins without a line --- before it, or nil. Both
// apiVersion and kind are given twice then.
func secondManifest(root *yaml.Node) (second *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return nil
	}
	times := make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i]
		if key.Value != "apiVersion" && key.Value != "kind" {
			continue
		}
		if times[key.Value]++; times[key.Value] == 2 && second == nil {
			second = key
		}
	}
	if times["apiVersion"] < 2 || times["kind"] < 2 {
		return nil
	}
	return second
}

func (r *reader) vetNode(n *yaml.Node, depth int) bool {
	if r.full() {
		return false
	}
	if depth > maxDepth {
		r.mistake(n, "nested more than %d deep", maxDepth)
		return false
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.mistake(n, "anchors and aliases are not allowed; "+
			"put a value that begins with & or * in quotes")
		return true
	case strings.HasPrefix(r.file.text[r.offset(n):], "!"):
		r.mistake(n, "YAML reads a value that begins with ! as a tag, and tags are not allowed; "+
			"put the value in quotes")
		return true
	case n.Kind == yaml.MappingNode:
		return r.vetMapping(n, depth)
	}
	for _, child := range n.Content {
		if !r.vetNode(child, depth+1) {
			return false
		}
	}
	return true
}

// vetMapping checks a mapping, and removes its bad keys.
func (r *reader) vetMapping(n *yaml.Node, depth int) bool {
	first := make(map[string]*yaml.Node, len(n.Content)/2)
	kept := n.Content[:0:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if r.isTemplate(key) {
			r.mistake(n, "%s", hintForTemplate(r.file.text[r.offset(n):]))
			continue
		}
		if !r.vetKey(key, first, depth) {
			continue
		}
		if !r.vetNode(value, depth+1) {
			return false
		}
		first[key.Value] = key
		kept = append(kept, key, value)
	}
	n.Content = kept
	return !r.full()
}

func (r *reader) vetKey(key *yaml.Node, first map[string]*yaml.Node, depth int) bool {
	if !r.vetNode(key, depth+1) || r.reported[key] {
		return false
	}
	switch tag := key.ShortTag(); {
	case key.Kind != yaml.ScalarNode:
		r.mistake(key, "a key must be a string, not %s", describe(key))
	case tag == "!!merge":
		r.mistake(key, "merge keys are not allowed")
	case tag != "!!str":
		r.mistake(key, "a key must be a string, not %s: put it in quotes", describe(key))
	case first[key.Value] != nil:
		r.mistake(key, "%s is given twice; the first is on line %d",
			quote(key.Value), first[key.Value].Line)
	default:
		return true
	}
	return false
}

// isTemplate reports whether a key is the inner mapping of {{ x }}: to YAML, that is a mapping with
// a mapping as its key.
func (r *reader) isTemplate(key *yaml.Node) bool {
	at := r.offset(key)
	return key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0 && at > 0 &&
		r.file.text[at-1] == '{'
}

// hintForTemplate returns what to write instead of the template of Go that text begins with.
func hintForTemplate(text string) string {
	if found, ok := othersyntax.Find(text[:min(len(text), maxTemplate)]); ok && found.Offset == 0 {
		return found.Advice
	}
	return othersyntax.Placeholder()
}

const maxTemplate = 1 << 10 // bytes in which a template of Go must end

// describe names what a node is, for messages.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return fmt.Sprintf("the number %s", clip(n.Value, maxQuoted))
	case "!!bool":
		return "the boolean " + n.Value
	case "!!timestamp":
		return fmt.Sprintf("the date %s", clip(n.Value, maxQuoted))
	case "!!null":
		return "nothing"
	}
	return "a string"
}
