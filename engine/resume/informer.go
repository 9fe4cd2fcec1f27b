package resume

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/object"
)

// InformerID returns the name under which the state keeps an informer. isFixed is that of an
// informer that watches nothing: its selection may also be that of a source.
func InformerID(of object.Selection, isFixed bool) string {
	if isFixed {
		return "rule " + of.FieldSelector
	}
	return fmt.Sprintf("%s %q %q %q",
		object.ResourceName(of.Resource), of.Namespace, of.LabelSelector, of.FieldSelector)
}

// ApartID returns the name of a record that a rule has for itself: of the objects that it had
// inside in an informer that it has left. A rule may have several of one informer; n numbers them.
// The name begins with that of the informer, so Selection can read it.
func ApartID(informer, rule string, n int) string {
	return fmt.Sprintf("%s left by %s %d", informer, rule, n)
}

// Selection returns the selection of an informer that the state keeps under this name, as
// attributes for a log.
func Selection(id string) (attrs []any) {
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

// Kept describes, for the state, which paths of its objects an informer keeps. "" means the whole
// object.
func Kept(p *object.Paths) string {
	if p == nil {
		return ""
	}
	text, err := json.Marshal(p.List())
	if err != nil {
		panic(err) // cannot happen: strings can always be marshalled
	}
	return string(text)
}

// Covers reports whether objects saved with the paths in saved, which Kept has described, hold
// everything that must be kept now.
func Covers(saved string, now *object.Paths) bool {
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
