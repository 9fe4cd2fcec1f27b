package object

import "k8s.io/apimachinery/pkg/runtime/schema"

// ResourceName returns a resource as manifests, logs and reports have it: GROUP/VERSION/RESOURCE,
// or VERSION/RESOURCE in the core group.
func ResourceName(r schema.GroupVersionResource) string {
	name := r.Version + "/" + r.Resource
	if r.Group != "" {
		name = r.Group + "/" + name
	}
	return name
}
