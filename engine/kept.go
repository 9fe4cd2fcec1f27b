package engine

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// informerID returns the name under which the state keeps an informer.
func informerID(i *plan.Informer) string {
	if i.Fixed != nil { // the selection may also be that of a source
		return "rule " + i.FieldSelector
	}
	return fmt.Sprintf("%s %q %q %q",
		object.ResourceName(i.Resource), i.Namespace, i.LabelSelector, i.FieldSelector)
}

// aloneID returns the name under which the state keeps the informer of a rule without a source.
func aloneID(rule string) string { return "rule " + plan.AloneSelector + rule }

// selectionOf returns, as attributes for a log, the selection of an informer that the state keeps
// under this name.
func selectionOf(id string) (attrs []any) {
	var resource, namespace, label, field string
	if _, err := fmt.Sscanf(id, "%s %q %q %q", &resource, &namespace, &label, &field); err != nil {
		return []any{"was", id}
	}
	attrs = append(attrs, "resource", resource)
	for _, a := range [][2]string{
		{"namespace", namespace}, {"labelSelector", label}, {"fieldSelector", field},
	} {
		if a[1] != "" {
			attrs = append(attrs, a[0], a[1])
		}
	}
	return attrs
}

// kept describes, for the state, which paths of its objects the informer keeps. "" means the whole
// object.
func kept(p *object.Paths) string {
	if p == nil {
		return ""
	}
	text, err := json.Marshal(p.List())
	if err != nil {
		panic(err) // cannot happen: strings can always be marshalled
	}
	return string(text)
}

// covers reports whether objects saved with the paths in saved hold everything that must be kept
// now.
func covers(saved string, now *object.Paths) bool {
	if saved == "" {
		return true
	}
	var paths [][]string
	if json.Unmarshal([]byte(saved), &paths) != nil || now == nil {
		return false
	}
	have := new(object.Paths)
	for _, path := range paths {
		have.Add(path...)
	}
	isMissing := func(path []string) bool { return !have.Covers(path...) }
	return !slices.ContainsFunc(now.List(), isMissing)
}
