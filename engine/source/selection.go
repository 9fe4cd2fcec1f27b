package source

import (
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Selection is what one informer watches. Equal Selections share one informer.
type Selection struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for all namespaces, and for a resource without namespaces.
	Namespace string
	// The API server evaluates LabelSelector and FieldSelector. They are in canonical form, so two
	// selectors are equal if their texts are.
	LabelSelector, FieldSelector string
}

// String returns the resource as manifests write it, VERSION/RESOURCE or GROUP/VERSION/RESOURCE,
// followed by the namespace and the selectors that are set.
func (s Selection) String() string {
	text := resourceName(s.Resource)
	if s.Namespace != "" {
		text += " in namespace " + s.Namespace
	}
	if s.LabelSelector != "" {
		text += ", label selector " + s.LabelSelector
	}
	if s.FieldSelector != "" {
		text += ", field selector " + s.FieldSelector
	}
	return text
}

func resourceName(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return r.Version + "/" + r.Resource
	}
	return r.Group + "/" + r.Version + "/" + r.Resource
}

// attrs returns the selection as attributes of a log line.
func (s Selection) attrs() []any {
	attrs := []any{slog.String("resource", resourceName(s.Resource))}
	for _, more := range []slog.Attr{
		slog.String("namespace", s.Namespace),
		slog.String("labelSelector", s.LabelSelector),
		slog.String("fieldSelector", s.FieldSelector),
	} {
		if more.Value.String() != "" {
			attrs = append(attrs, more)
		}
	}
	return attrs
}
