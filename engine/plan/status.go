package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/object"
)

// status reports fields that an action writes in vain, because the API server silently drops them:
// the status of a resource that has the subresource status, and all but status and metadata through
// that subresource. It also reports a subresource that does not exist.
func (m *fitting) status(a config.Action, source config.Source) {
	resource := a.Resource
	if resource == (schema.GroupVersionResource{}) {
		resource = source.Resource
	}
	has, known := m.schemas.HasStatus(resource)
	name := object.ResourceName(resource)
	isStatus := a.Subresource != ""
	switch {
	case !known:
		return
	case isStatus && !has:
		m.add(a.ResourceAt.Mistake(0, noStatus(resource)))
		return
	case !has:
		return
	}
	for _, field := range written(a) {
		fault := ""
		switch isOfStatus := field.name == "status"; {
		case isOfStatus && a.Verb == config.Create && name == "v1/nodes": // a kubelet does so
		case isOfStatus && a.Verb == config.Create:
			fault = fmt.Sprintf("the API server drops the status of a new object: patch %s/status "+
				"once the object is there", name)
		case isOfStatus && !isStatus:
			with := "resource: " + name + "/status"
			if a.Kind.Kind != "" { // it has no resource to change
				with = "{" + with + ", object: …}"
			}
			fault = "the API server drops status here, because it is a subresource: " +
				"write it in an action of its own, with " + with
		case isStatus && !isOfStatus && !alsoThroughStatus[field.name]:
			fault = fmt.Sprintf("the API server drops %s here, because %s/status is about the status "+
				"alone: write it in an action of its own, with resource: %[2]s", field.name, name)
		}
		if fault != "" {
			m.add(field.at.Mistake(0, fault))
		}
	}
}

func noStatus(resource schema.GroupVersionResource) string {
	return fmt.Sprintf("%s has no subresource status: write resource: %[1]s", object.ResourceName(resource))
}

// alsoThroughStatus are the fields beside status that a write to the subresource may have.
var alsoThroughStatus = map[string]bool{"apiVersion": true, "kind": true, "metadata": true}

// writtenField is a field of an object that an action writes.
type writtenField struct {
	name string
	at   config.Text
}

// written returns the top-level fields of an action's object or patch. The fields of an expression
// are unknown.
func written(a config.Action) (all []writtenField) {
	for _, v := range []*config.Value{a.Object, a.Patch} {
		switch {
		case v == nil:
		case v.Kind == config.ValueMapping:
			for _, member := range v.Members {
				if !strings.Contains(member.Name.String(), "${") {
					all = append(all, writtenField{member.Name.String(), member.Name})
				}
			}
		case v.Kind == config.ValueList && a.JSONPatch:
			for _, operation := range v.Items {
				all = append(all, operationWrites(operation)...)
			}
		}
	}
	return all
}

// operationWrites returns the fields that an operation of a JSON patch changes: none for a test.
func operationWrites(operation *config.Value) (all []writtenField) {
	op := ""
	for _, member := range operation.Members {
		value := member.Value.Text
		first, _, _ := strings.Cut(strings.TrimPrefix(value.String(), "/"), "/")
		switch name := member.Name.String(); {
		case member.Value.Kind != config.ValueTemplate:
		case name == "op":
			op = value.String()
		case name == "path" && first != "" && !strings.Contains(first, "${"):
			all = append(all, writtenField{first, value})
		}
	}
	if op == "test" {
		return nil
	}
	return all
}
