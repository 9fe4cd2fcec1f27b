package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/informd/informd/plugins/handler"
)

// head is an object or a merge patch. Only its metadata is decoded.
type head struct{ object, metadata map[string]json.RawMessage }

func headOf(text json.RawMessage) (h head, err error) {
	h = head{make(map[string]json.RawMessage), make(map[string]json.RawMessage)}
	if err := json.Unmarshal(text, &h.object); err != nil {
		return h, err
	}
	if metadata, ok := h.object["metadata"]; ok {
		err = json.Unmarshal(metadata, &h.metadata)
	}
	if err == nil && (h.object == nil || h.metadata == nil) {
		err = errors.New("null is not an object")
	}
	return h, err
}

// objectBody returns the object of an apply or a create, and fills in what it leaves out.
func objectBody(a handler.Action, kind string, from seen) ([]byte, error) {
	h, err := headOf(a.Object)
	if err != nil {
		return nil, err
	}
	if is := h.object["kind"]; is != nil {
		var given string
		if json.Unmarshal(is, &given) != nil || given != "" && given != kind {
			return nil, fmt.Errorf("the object's kind must be %s, the resource's: leave it out",
				kind)
		}
	}
	h.object["apiVersion"], h.object["kind"] = text(apiVersion(a.Resource)), text(kind)
	return h.with(map[string]string{
		"name": a.Name, "namespace": a.Namespace,
		"uid": from.uid, "resourceVersion": from.version,
	})
}

// patchBody returns a patch that fails if the object is no longer what it was computed from.
func patchBody(a handler.Action, from seen) (body []byte, contentType string, err error) {
	if a.PatchType != handler.JSONPatch {
		h, err := headOf(a.Patch)
		if err != nil {
			return nil, "", err
		}
		body, err := h.with(map[string]string{"uid": from.uid, "resourceVersion": from.version})
		return body, handler.MergePatch, err
	}
	var tests, list []json.RawMessage
	if err := json.Unmarshal(a.Patch, &list); err != nil {
		return nil, "", err
	}
	for _, t := range []struct{ path, is string }{
		{"/metadata/uid", from.uid},
		{"/metadata/resourceVersion", from.version},
	} {
		if t.is != "" {
			test := fmt.Appendf(nil, `{"op":"test","path":"%s","value":%s}`, t.path, text(t.is))
			tests = append(tests, test)
		}
	}
	body, err = json.Marshal(append(tests, list...))
	return body, handler.JSONPatch, err
}

// with returns the object with members of its metadata set to those that are not empty.
func (h head) with(metadata map[string]string) ([]byte, error) {
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

// deleteBody returns the options of a deletion. Dependants are deleted after the object, as kubectl
// does: by default the API server would leave a Job's Pods in place.
func deleteBody(from seen) []byte {
	options := map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
	}
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

func apiVersion(r handler.Resource) string { return strings.TrimPrefix(r.Group+"/"+r.Version, "/") }
