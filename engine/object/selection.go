package object

import "k8s.io/apimachinery/pkg/runtime/schema"

// Selection is what one informer watches. Sources with equal Selections share one informer.
type Selection struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for all namespaces, and for a resource without namespaces.
	Namespace string
	// The API server evaluates LabelSelector and FieldSelector. They are in canonical form, so two
	// selectors are equal if their texts are.
	LabelSelector, FieldSelector string
}

// String returns the resource as manifests write it, followed by the namespace and the selectors
// that are set.
func (s Selection) String() string {
	text := ResourceName(s.Resource)
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
