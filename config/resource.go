package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// versionLike matches Kubernetes' own versions, and nearly all others.
	versionLike = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
	// groupName and resourceName match what a CustomResourceDefinition may use: a DNS subdomain and
	// a DNS label.
	groupName = regexp.MustCompile(
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
)

const maxGroup = 253

// coreResources has the resources of the core group that can be watched. With them, reader
// recognizes a missing plural or version.
var coreResources = []string{
	"configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes",
	"persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
	"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
}

// otherResources has the groups and versions of resources that are often written without them.
var otherResources = map[string]string{
	"daemonsets": "apps/v1", "deployments": "apps/v1", "replicasets": "apps/v1",
	"statefulsets": "apps/v1", "cronjobs": "batch/v1", "jobs": "batch/v1",
	"ingresses": "networking.k8s.io/v1", "networkpolicies": "networking.k8s.io/v1",
	"clusterrolebindings":       "rbac.authorization.k8s.io/v1",
	"clusterroles":              "rbac.authorization.k8s.io/v1",
	"rolebindings":              "rbac.authorization.k8s.io/v1",
	"roles":                     "rbac.authorization.k8s.io/v1",
	"customresourcedefinitions": "apiextensions.k8s.io/v1",
	"horizontalpodautoscalers":  "autoscaling/v2",
	"leases":                    "coordination.k8s.io/v1",
	"poddisruptionbudgets":      "policy/v1",
	"storageclasses":            "storage.k8s.io/v1",
}

// resource reads VERSION/RESOURCE or GROUP/VERSION/RESOURCE.
func (r *reader) resource(n *yaml.Node) schema.GroupVersionResource {
	s := r.str(n, "spec.resource")
	if s == "" {
		return schema.GroupVersionResource{}
	}
	gvr, fault := parseResource(s)
	if fault != "" {
		r.mistake(n, "spec.resource %s: %s", quote(s), fault)
		return schema.GroupVersionResource{}
	}
	return gvr
}

// parseResource returns the resource of s, or what is wrong with it and what to write instead.
func parseResource(s string) (gvr schema.GroupVersionResource, fault string) {
	const form = "write VERSION/RESOURCE, such as v1/pods, " +
		"or GROUP/VERSION/RESOURCE, such as apps/v1/deployments"
	parts := strings.Split(s, "/")
	switch {
	case len(parts) == 1 && slices.Contains(coreResources, corePlural(s)):
		return gvr, "the version is missing: write v1/" + corePlural(s)
	case len(parts) == 1 && otherPlural(s) != "":
		return gvr, "the group and the version are missing: write " + otherPlural(s)
	case len(parts) == 1 || slices.Contains(parts, ""):
		return gvr, form
	case versionLike.MatchString(parts[0]) && len(parts) == 3 || len(parts) > 3:
		return gvr, "a subresource cannot be watched: " + form
	case len(parts) == 3:
		gvr = schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	case !versionLike.MatchString(parts[0]) && versionLike.MatchString(parts[1]):
		return gvr, "the resource is missing: write " + clip(s, maxQuoted) + "/RESOURCE"
	case !versionLike.MatchString(parts[0]):
		return gvr, fmt.Sprintf("the version is missing: write %s/VERSION/%s",
			clip(parts[0], maxQuoted), clip(parts[1], maxQuoted))
	default:
		gvr = schema.GroupVersionResource{Version: parts[0], Resource: parts[1]}
	}
	if fault := notResource(gvr); fault != "" {
		return schema.GroupVersionResource{}, fault
	}
	return gvr, ""
}

func notResource(gvr schema.GroupVersionResource) string {
	plural := corePlural(gvr.Resource)
	switch {
	case gvr.Group == "" && plural != gvr.Resource && slices.Contains(coreResources, plural):
		return fmt.Sprintf("use the resource's plural name: write %s/%s", gvr.Version, plural)
	case gvr.Group == "" && otherPlural(gvr.Resource) != "":
		return fmt.Sprintf("%s are in another group: write %s",
			clip(gvr.Resource, maxQuoted), otherPlural(gvr.Resource))
	case !resourceName.MatchString(gvr.Resource) || len(gvr.Resource) > maxName:
		return fmt.Sprintf("%s must be the resource's plural name in lower case, "+
			"as `kubectl api-resources` shows it", quote(gvr.Resource))
	case !resourceName.MatchString(gvr.Version) || len(gvr.Version) > maxName:
		return fmt.Sprintf("%s is not a version such as v1 or v1beta1", quote(gvr.Version))
	case gvr.Group != "" && (!groupName.MatchString(gvr.Group) || len(gvr.Group) > maxGroup):
		return fmt.Sprintf("%s is not an API group such as apps or stable.example.com",
			quote(gvr.Group))
	}
	return ""
}

// corePlural returns the plural, in lower case, of a kind of the core group. A plural stays as it
// is.
func corePlural(s string) string {
	s = strings.ToLower(s)
	if s != "" && !strings.HasSuffix(s, "s") {
		s += "s"
	}
	return s
}

// otherPlural returns GROUP/VERSION/RESOURCE for a kind among otherResources, or "".
func otherPlural(s string) string {
	s = strings.ToLower(s)
	for _, plural := range []string{s, s + "s", s + "es", strings.TrimSuffix(s, "y") + "ies"} {
		if where := otherResources[plural]; where != "" {
			return where + "/" + plural
		}
	}
	return ""
}
