package ruletest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// flow returns a JSON value as YAML on one line: {rule: pending, event: added}.
func flow(v any) string {
	var b strings.Builder
	appendFlow(&b, v)
	return b.String()
}

func appendFlow(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for i, name := range slices.SortedFunc(maps.Keys(v), byField) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(text(name) + ": ")
			appendFlow(b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			appendFlow(b, item)
		}
		b.WriteByte(']')
	case string:
		b.WriteString(text(v))
	case nil:
		b.WriteString("null")
	default: // a number or a boolean
		fmt.Fprint(b, v)
	}
}

// fieldOrder has the fields that come first, as people write them. The others are sorted.
var fieldOrder = []string{
	"rule", "event", "apiVersion", "kind", "metadata", "resource", "namespace", "name", "attempt",
	"payload", "object", "old", "attached", "items", "actions", "dead", "error",
}

func byField(a, b string) int {
	place := func(s string) int {
		if i := slices.Index(fieldOrder, s); i >= 0 {
			return i
		}
		return len(fieldOrder)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

var (
	// plainText matches strings that YAML reads as they are, also within { } and [ ].
	plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)
	// notText matches those of them that YAML takes for something else.
	notText = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// text returns a string as YAML, in quotes if it needs them.
func text(s string) string {
	if plainText.MatchString(s) && !notText.MatchString(s) {
		return s
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // no string fails
	return strings.TrimSpace(b.String())
}
