package rights

import (
	"slices"
	"strings"
)

// scope says whether a resource has namespaces.
type scope uint8

const (
	unknown scope = iota // a custom resource, or one that is newer than this table
	namespaced
	clusterWide
)

// withoutNamespaces has Kubernetes' own resources that have no namespaces, by group.
var withoutNamespaces = map[string][]string{
	"": {"componentstatuses", "namespaces", "nodes", "persistentvolumes"},
	"admissionregistration.k8s.io": {
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"mutatingwebhookconfigurations", "validatingadmissionpolicies",
		"validatingadmissionpolicybindings", "validatingwebhookconfigurations",
	},
	"apiextensions.k8s.io":         {"customresourcedefinitions"},
	"apiregistration.k8s.io":       {"apiservices"},
	"certificates.k8s.io":          {"certificatesigningrequests", "clustertrustbundles"},
	"flowcontrol.apiserver.k8s.io": {"flowschemas", "prioritylevelconfigurations"},
	"internal.apiserver.k8s.io":    {"storageversions"},
	"networking.k8s.io":            {"ingressclasses", "ipaddresses", "servicecidrs"},
	"node.k8s.io":                  {"runtimeclasses"},
	"rbac.authorization.k8s.io":    {"clusterrolebindings", "clusterroles"},
	"resource.k8s.io":              {"deviceclasses", "devicetaintrules", "resourceslices"},
	"scheduling.k8s.io":            {"priorityclasses"},
	"storage.k8s.io": {
		"csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses",
	},
	"storagemigration.k8s.io": {"storageversionmigrations"},
}

// withNamespacesOnly are the other groups of Kubernetes' own: their resources have namespaces.
var withNamespacesOnly = []string{
	"apps", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
	"policy",
}

func scopeOf(group, resource string) scope {
	resources, ours := withoutNamespaces[group]
	resource, _, _ = strings.Cut(resource, "/")
	switch {
	case slices.Contains(resources, resource):
		return clusterWide
	case ours, slices.Contains(withNamespacesOnly, group):
		return namespaced
	}
	return unknown
}
