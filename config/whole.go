package config

import (
	"bytes"
	"errors"
	"io"

	"gopkg.in/yaml.v3"
)

// HasMore reports whether something follows the first YAML document of text: a second value without
// a --- line before it, or one after a line with three dots. It returns false if the first document
// itself is not YAML.
func HasMore(text []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	return decoder.Decode(&document) == nil && !errors.Is(decoder.Decode(&document), io.EOF)
}
