package config

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Place finds what stands where within the config of a Handler. The zero Place finds nothing.
type Place struct {
	key  *yaml.Node // "config" itself
	node *yaml.Node
	file *file
}

// Equal returns true: where a config stands does not matter to what it says.
func (p Place) Equal(Place) bool { return true }

// Find returns the field at a path such as routes.0.channel or command[1], or the innermost one
// around it that is there. It returns the zero Text only if there is no config.
func (p Place) Find(path string) Text {
	if p.key == nil {
		return Text{}
	}
	at, node := p.key, p.node
	for path != "" && node != nil {
		var inner *yaml.Node
		switch node.Kind {
		case yaml.MappingNode:
			// A key may have dots itself: the longest one counts.
			matched := ""
			for i := 0; i+1 < len(node.Content); i += 2 {
				key := node.Content[i]
				if len(key.Value) >= len(matched) && beginsWith(path, key.Value) {
					matched, at, inner = key.Value, key, node.Content[i+1]
				}
			}
			path = strings.TrimPrefix(path[len(matched):], ".")
		case yaml.SequenceNode:
			text, rest, _ := strings.Cut(strings.NewReplacer("[", "", "]", ".").Replace(path), ".")
			if i, err := strconv.Atoi(text); err == nil && i >= 0 && i < len(node.Content) {
				inner, at = node.Content[i], node.Content[i]
			}
			path = strings.TrimPrefix(rest, ".")
		}
		node = inner
	}
	return Text{
		value: at.Value, file: p.file, start: p.file.offset(at.Line, at.Column), style: at.Style,
	}
}

// beginsWith reports whether a path begins with a whole name.
func beginsWith(path, name string) bool {
	rest, ok := strings.CutPrefix(path, name)
	return ok && name != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
