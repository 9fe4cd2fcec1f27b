package action

import (
	"encoding/json"

	"github.com/informd/informd/plugins/handler"
)

// objectBody is the object of an apply or a create, with what is left out of it filled in.
func objectBody(a handler.Action, kind string, from seen) ([]byte, error) {
	h, err := headOf(a.Object)
	if err != nil {
		return nil, err
	}
	h.object["apiVersion"], h.object["kind"] = text(apiVersion(a.Resource)), text(kind)
	return h.with(map[string]string{"name": a.Name, "namespace": a.Namespace, "uid": from.uid, "resourceVersion": from.version})
}

// patchBody is a patch that fails unless it meets what it is computed from.
func patchBody(a handler.Action, from seen) (body []byte, contentType string, err error) {
	if a.PatchType != jsonPatch {
		h, err := headOf(a.Patch)
		if err != nil {
			return nil, "", err
		}
		body, err := h.with(map[string]string{"uid": from.uid, "resourceVersion": from.version})
		return body, mergePatch, err
	}
	list, err := operations(a.Patch)
	if err != nil {
		return nil, "", err
	}
	var tests []json.RawMessage
	for _, t := range []struct{ path, is string }{{"/metadata/uid", from.uid}, {"/metadata/resourceVersion", from.version}} {
		if t.is != "" {
			tests = append(tests, json.RawMessage(`{"op":"test","path":"`+t.path+`","value":`+string(text(t.is))+`}`))
		}
	}
	body, err = json.Marshal(append(tests, list...))
	return body, jsonPatch, err
}

// with has the object with members of its metadata set, those that are not empty.
func (h head) with(metadata map[string]string) ([]byte, error) {
	if h.metadata == nil {
		h.metadata = make(map[string]json.RawMessage)
	}
	for name, value := range metadata {
		if value != "" {
			h.metadata[name] = text(value)
		}
	}
	encoded, err := json.Marshal(h.metadata)
	if err != nil {
		return nil, err
	}
	h.object["metadata"] = encoded
	return json.Marshal(h.object)
}

// deleteBody is what a deletion is asked for with. What depends on the object is deleted after it, as kubectl has it: the
// API server would by default leave a Job's Pods where they are.
func deleteBody(from seen) []byte {
	options := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
	preconditions := make(map[string]string)
	if from.uid != "" {
		preconditions["uid"] = from.uid
	}
	if from.version != "" {
		preconditions["resourceVersion"] = from.version
	}
	options["preconditions"] = preconditions
	body, _ := json.Marshal(options) // of strings
	return body
}

func text(s string) json.RawMessage {
	encoded, _ := json.Marshal(s)
	return encoded
}
