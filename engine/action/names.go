package action

import "k8s.io/apimachinery/pkg/runtime/schema"

// resourceText is a resource as the configuration has it: apps/v1/deployments/status.
func resourceText(r schema.GroupVersionResource, subresource string) string {
	text := r.Version + "/" + r.Resource
	if r.Group != "" {
		text = r.Group + "/" + text
	}
	if subresource != "" {
		text += "/" + subresource
	}
	return text
}
