package object

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Secrets is the resource whose objects' values are neither recorded nor shown.
var Secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// ResourceName returns a resource as manifests, logs and reports have it: GROUP/VERSION/RESOURCE,
// or VERSION/RESOURCE in the core group.
func ResourceName(r schema.GroupVersionResource) string {
	name := r.Version + "/" + r.Resource
	if r.Group != "" {
		name = r.Group + "/" + name
	}
	return name
}

// ResourceOf is the inverse of ResourceName. It returns the zero value for a name of another form.
func ResourceOf(name string) (r schema.GroupVersionResource) {
	parts := strings.Split(name, "/")
	if len(parts) == 3 {
		r.Group, parts = parts[0], parts[1:]
	}
	if len(parts) != 2 {
		return schema.GroupVersionResource{}
	}
	r.Version, r.Resource = parts[0], parts[1]
	return r
}
