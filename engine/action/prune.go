package action

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/plugins/handler"
)

// prune is a verb of rules' own actions, which no handler can ask for.
const prune = "prune"

// Prune is the action that deletes what has these labels and was not applied by the actions before it, in whichever namespace.
func Prune(resource schema.GroupVersionResource, labelSelector string) handler.Action {
	selector, _ := json.Marshal(labelSelector) // no string fails
	return handler.Action{Verb: prune, Resource: handler.Resource(resource), Object: selector}
}

// ValidateOwn is Validate for actions of a rule's own, of which Prune may be one.
func ValidateOwn(actions []handler.Action) error {
	var others []handler.Action
	for _, a := range actions {
		if a.Verb != prune {
			others = append(others, a)
		}
	}
	return Validate(others)
}
