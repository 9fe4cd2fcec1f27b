package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields is a part of a FieldsV1: it maps the names of fields to their managed subfields.
type fields map[string]fields

// leaf is a field without managed subfields.
var leaf = fields{}

func leaves(names ...string) fields {
	f := fields{}
	for _, name := range names {
		f["f:"+name] = leaf
	}
	return f
}

// with returns the union of f and more.
func (f fields) with(more fields) fields {
	f = maps.Clone(f)
	maps.Copy(f, more)
	return f
}

func entry(
	manager, operation, subresource string, at metav1.Time,
	f fields) metav1.ManagedFieldsEntry {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("fleet: %v", err)) // such maps always encode
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation),
		APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)), Subresource: subresource,
	}
}

// managed returns the managedFields of a pod: most of the controller manager's, some of the
// kubelet's.
func (m *podMaker) managed() []metav1.ManagedFieldsEntry {
	labels := leaves(slices.Collect(maps.Keys(m.labels))...).with(fields{".": leaf})
	return []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", "Update", "", timeMark(blankCreated), fields{
			"f:metadata": {
				"f:generateName":    leaf,
				"f:labels":          labels,
				"f:ownerReferences": {".": leaf, fmt.Sprintf(`k:{"uid":%q}`, m.owner.UID): leaf},
			},
			"f:spec": {"f:containers": m.managedContainers()},
		}),
		entry("kubelet", "Update", "status", timeMark(blankTransition), fields{
			"f:status": leaves("containerStatuses", "phase").
				with(fields{"f:conditions": conditionFields("Ready")}),
		}),
	}
}

func (m *podMaker) managedContainers() fields {
	containers := fields{}
	for _, name := range m.names {
		key := fmt.Sprintf(`k:{"name":%q}`, name)
		containers[key] = leaves("image", "name").with(fields{".": leaf})
	}
	return containers
}

func conditionFields(types ...string) fields {
	conditions := fields{}
	for _, t := range types {
		key := fmt.Sprintf(`k:{"type":%q}`, t)
		conditions[key] = leaves("lastTransitionTime", "status", "type").with(fields{".": leaf})
	}
	return conditions
}
