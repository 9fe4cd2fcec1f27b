package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// The OpenAPI documents in Kubernetes' repository leave out which strings a field takes. The Go code
// that API servers make their documents from has them.

var (
	definition = regexp.MustCompile(`^func schema_k8sio_(\w+)\(`)
	field      = regexp.MustCompile(`^\t{5}"(\w+)": \{$`)
	values     = regexp.MustCompile(`^\t{7}Enum:\s+\[\]interface\{\}\{(.*)\},$`)
)

// enumOf names a field: of a definition, as the Go code calls it.
type enumOf struct{ definition, field string }

// readEnums returns the strings that fields take.
func readEnums(path string) (map[enumOf][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	enums := make(map[enumOf][]string)
	var at enumOf
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "func ") {
			at = enumOf{}
		}
		if m := definition.FindStringSubmatch(line); m != nil {
			at.definition = m[1]
		} else if m := field.FindStringSubmatch(line); m != nil {
			at.field = m[1]
		} else if m := values.FindStringSubmatch(line); m != nil && at.definition != "" {
			var list []string
			if err := json.Unmarshal([]byte("["+m[1]+"]"), &list); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, line, err)
			}
			enums[at] = list
		}
	}
	if len(enums) == 0 {
		return nil, fmt.Errorf("%s has no enums in the form that this command knows", path)
	}
	return enums, nil
}

// withEnums adds the strings that fields take to an OpenAPI document.
func withEnums(text []byte, enums map[enumOf][]string) ([]byte, error) {
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	components, _ := document["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for name, s := range schemas {
		path, ok := strings.CutPrefix(name, "io.k8s.")
		s, _ := s.(map[string]any)
		properties, _ := s["properties"].(map[string]any)
		if !ok {
			continue
		}
		for name, p := range properties {
			list := enums[enumOf{strings.ReplaceAll(path, ".", "_"), name}]
			if p, ok := p.(map[string]any); ok && list != nil && p["type"] == "string" {
				p["enum"] = list
			}
		}
	}
	return json.Marshal(document)
}
