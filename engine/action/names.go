package action

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
)

// resourceName returns a resource as manifests have it, with its subresource if it has one:
// apps/v1/deployments/status.
func resourceName(r schema.GroupVersionResource, subresource string) string {
	name := object.ResourceName(r)
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}

// Name names one of a rule's own actions as errors about it begin. label is that of its Request.
func Name(label string, a handler.Action) string {
	if label == "" {
		return what(a)
	}
	return label + ": " + what(a)
}

// what names an action for people, as "patch of v1/pods shop/web-0". A handler made the action, so
// its fields may hold anything.
func what(a handler.Action) string {
	resource, key := resourceOf(a.Resource), keyOf(a).String()
	text := a.Verb + " of " + resourceName(resource, a.Subresource) + " " + key
	if a.Verb == handler.ActionEvent {
		text = "an Event about " + object.ResourceName(resource) + " " + key
	}
	return printable.Line(text, 512)
}

// keyOf returns the key of an action's target.
func keyOf(a handler.Action) delta.Key { return delta.Key{Namespace: a.Namespace, Name: a.Name} }

func resourceOf(r handler.Resource) schema.GroupVersionResource {
	return schema.GroupVersionResource(r)
}

// isSameResource reports whether a and b are the same resource, perhaps in different versions.
func isSameResource(a, b handler.Resource) bool {
	return a.Group == b.Group && a.Resource == b.Resource
}

// maxManager bounds a field manager's name in bytes, as the API server does.
const maxManager = 128

// FieldManager returns the name under which the API server records what a rule owns: informd/RULE.
// A name that is too long is cut, and a hash keeps it distinct.
func FieldManager(rule string) string {
	name := "informd/" + rule
	if len(name) <= maxManager {
		return name
	}
	sum := sha256.Sum256([]byte(rule))
	hash := "-" + hex.EncodeToString(sum[:8])
	return printable.Cut(name, maxManager-len(hash)) + hash
}
