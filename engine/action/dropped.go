package action

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/informd/informd/plugins/handler"
)

// neverOwned are fields of objects that the API server takes, and whose owner it may not keep: those
// of identity, and what it stores elsewhere.
var neverOwned = map[string]bool{
	"apiVersion": true, "kind": true, "metadata": true, "stringData": true,
}

// isEmpty reports whether a value says nothing.
func isEmpty(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "null", "{}", "[]", `""`:
		return true
	}
	return false
}

// aboutDropped says what the API server dropped of an apply.
func aboutDropped(a handler.Action, names []string) string {
	resource := resourceName(resourceOf(a.Resource), "")
	how := ""
	switch {
	case a.Subresource != "":
		how = ": write it in an action of its own, with resource " + resource
	case slices.Contains(names, "status"):
		how = ": write the status in an action of its own, with resource " + resource + "/status"
	}
	return "the API server ignored " + strings.Join(names, " and ") + how
}

// dropped returns the fields at the top of an applied object that the API server took without a word
// and did not store, sorted: such as the status of a resource that has the subresource status. there
// is the object's metadata after the apply. In it the API server says which fields each manager owns.
func (t task) dropped(there metadata) (names []string) {
	if t.action.Verb != handler.ActionApply || len(there.ManagedFields) == 0 {
		return nil
	}
	var said map[string]json.RawMessage
	if json.Unmarshal(t.action.Object, &said) != nil {
		return nil
	}
	owned := make(map[string]struct{})
	for _, m := range there.ManagedFields {
		if m.Manager == FieldManager(t.by.Rule) && m.Operation == "Apply" &&
			m.Subresource == t.action.Subresource {
			owned = m.Fields
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		_, isOwned := owned["f:"+name]
		if !isOwned && !neverOwned[name] && !isEmpty(said[name]) {
			names = append(names, name)
		}
	}
	return names
}
