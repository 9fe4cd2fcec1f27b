package handler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Target names the object of an action. Its methods make the actions that manifests have under the
// same names, for [Answer.Actions]:
//
//	seen, err := ev.Target().Patch(`{"metadata":{"labels":{"example.com/seen":"yes"}}}`)
//
// Set the other fields that the verb takes, such as Action.Warning, in the result.
//
// Apply, Create and Patch take text of JSON as a string, []byte or json.RawMessage, and any other
// value as json.Marshal encodes it. Text and encoding have at most 1.5 MiB. Their error is that of
// json.Marshal or [Action.Validate]. It wraps [ErrReject], so Handle can return it as it is. What
// Delete and Event return is checked when the event is answered. An answer has at most 64 actions,
// of 8 MiB together.
type Target struct {
	Resource  Resource
	Namespace string // empty for cluster-scoped objects
	Name      string
	// UID and ResourceVersion, if set, limit the action to this very object and this version, as
	// those of Action do. Create takes neither.
	UID             string
	ResourceVersion string
}

// Target returns the event's own object, for informd to change in the state that the event shows:
// see [Action]. In a group that is the object of the newest item. For the target of another item,
// also set UID and ResourceVersion, from the item.
func (ev Event) Target() Target {
	return Target{Resource: ev.Resource, Namespace: ev.Namespace, Name: ev.Name}
}

// String returns the target as informd's reports do: apps/v1/deployments shop/web.
func (t Target) String() string {
	r := strings.TrimPrefix(t.Resource.Group+"/"+t.Resource.Version+"/"+t.Resource.Resource, "/")
	name := strings.TrimPrefix(t.Namespace+"/"+t.Name, "/")
	return strings.Trim(r+" "+name, "/ ")
}

// Apply returns the action that has the API server apply object, under the field manager
// informd/RULE. It creates a missing object, and takes over fields that others manage. object may
// leave out apiVersion, kind, name and namespace, which are the target's. A struct of k8s.io/api
// also applies the fields that it does not omit when they are empty, such as a status; an apply
// configuration of client-go does not.
func (t Target) Apply(object any) (Action, error) {
	return t.with(ActionApply, object)
}

// Create returns the action that creates object under the target's name. object may leave out what
// it may in Apply. If the same rule has created it before, informd counts the action as done. If
// somebody else has, the event becomes a dead letter.
func (t Target) Create(object any) (Action, error) {
	return t.with(ActionCreate, object)
}

// Patch returns the action that patches the target: with a merge patch if patch is a mapping in
// JSON, and with a JSON patch if it is a list. If the target is gone, the action counts as done.
func (t Target) Patch(patch any) (Action, error) {
	return t.with(ActionPatch, patch)
}

// Delete returns the action that deletes the target, and then its dependents. If the target is
// gone, the action counts as done. Without a UID it also deletes a newer object of the same name.
func (t Target) Delete() Action { return t.action(ActionDelete) }

// Event returns the action that records a Kubernetes Event about the target, of type Normal. Set
// Warning of the action for the other type. reason is one word in CamelCase, of at most 128 bytes.
// informd cuts message after 1024 bytes.
func (t Target) Event(reason, message string) Action {
	a := t.action(ActionEvent)
	a.Reason, a.Message = reason, message
	return a
}

// with returns the action with a body: an object or a patch.
func (t Target) with(verb string, body any) (Action, error) {
	text, err := textOf(body)
	a := t.action(verb)
	switch {
	case verb != ActionPatch:
		a.Object = text
	case bytes.HasPrefix(text, []byte("[")):
		a.Patch, a.PatchType = text, JSONPatch
	default:
		a.Patch = text
	}
	if err == nil {
		err = a.Validate()
	}
	if err != nil {
		return Action{}, Reject(fmt.Errorf("%s %v: %w", verb, t, err))
	}
	return a, nil
}

// textOf returns the JSON of a body.
func textOf(body any) (json.RawMessage, error) {
	switch body := body.(type) {
	case string:
		return bytes.TrimSpace([]byte(body)), nil
	case []byte:
		return bytes.TrimSpace(body), nil
	case json.RawMessage:
		return bytes.TrimSpace(body), nil
	}
	return json.Marshal(body)
}

func (t Target) action(verb string) Action {
	return Action{
		Verb: verb, Resource: t.Resource, Namespace: t.Namespace, Name: t.Name,
		UID: t.UID, ResourceVersion: t.ResourceVersion,
	}
}
