package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/plugins/handler"
)

const (
	// maxObject is how much the API server's store takes of one object by default, in bytes.
	maxObject = 3 << 19
	maxName   = 253 // bytes, as Kubernetes has it
	// The bounds of an Event's texts, in bytes, as events.k8s.io has them.
	maxEventReason  = 128
	maxEventMessage = 1024
)

const (
	mergePatch = "application/merge-patch+json"
	jsonPatch  = "application/json-patch+json"
)

const statusSubresource = "status"

// Validate tells whether actions can be carried out as far as that shows in themselves: all that is asked of a rule's own,
// which need no Policy. The error wraps handler.ErrReject.
func Validate(actions []handler.Action) error {
	for i, a := range actions {
		if err := validate(a); err != nil {
			return refused(i, a, err)
		}
	}
	return nil
}

func validate(a handler.Action) error {
	if err := validateTarget(a); err != nil {
		return err
	}
	if a.Subresource != "" && (a.Subresource != statusSubresource || a.Verb != handler.ActionApply && a.Verb != handler.ActionPatch) {
		return errors.New("the only subresource is status, for apply and patch")
	}
	switch a.Verb {
	case handler.ActionApply:
		return validateObject(a)
	case handler.ActionCreate:
		if a.UID != "" || a.ResourceVersion != "" {
			return errors.New("what is to be created has neither uid nor resourceVersion")
		}
		return validateObject(a)
	case handler.ActionPatch:
		return validatePatch(a)
	case handler.ActionDelete:
		return nil
	case handler.ActionEvent:
		if len(a.Reason) > maxEventReason || !eventReason.MatchString(a.Reason) {
			return fmt.Errorf("the reason of an Event is a word in CamelCase, of at most %d bytes", maxEventReason)
		}
		return nil
	}
	return errors.New("the verbs are apply, patch, create, delete and event")
}

var eventReason = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// validateTarget sees to it that the target's names are each one segment of a URL's path.
func validateTarget(a handler.Action) error {
	switch r := a.Resource; {
	case r.Group != "" && validation.IsDNS1123Subdomain(r.Group) != nil:
		return errors.New("the group is no DNS name")
	case validation.IsDNS1123Label(r.Version) != nil || validation.IsDNS1123Label(r.Resource) != nil:
		return errors.New("version and resource are lower-case names, as in v1 and pods; a subresource is named apart")
	case a.Namespace != "" && validation.IsDNS1123Label(a.Namespace) != nil:
		return errors.New("the namespace is no DNS label")
	case a.Name == "":
		return errors.New("it has no name")
	case len(a.Name) > maxName || path.IsValidPathSegmentName(a.Name) != nil:
		return fmt.Errorf("the name is longer than %d bytes, or has a / or %% in it", maxName)
	}
	return nil
}

// head is what an object or a merge patch says of itself. Members that it does not have are nil. Names are taken in the
// case that they are written in, as the API server takes them.
type head struct {
	object   map[string]json.RawMessage
	metadata map[string]json.RawMessage
}

func headOf(text json.RawMessage) (h head, err error) {
	if h.object, err = members(text); err != nil {
		return h, fmt.Errorf("it is no JSON object: %w", err)
	}
	if metadata, ok := h.object["metadata"]; ok {
		if h.metadata, err = members(metadata); err != nil {
			return h, errors.New("its metadata is no JSON object")
		}
	}
	return h, nil
}

func members(text json.RawMessage) (m map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, withoutContent(err)
	}
	if m == nil {
		return nil, errors.New("it is null")
	}
	return m, nil
}

// withoutContent is an error of encoding/json, whose texts may quote what they are about, as one that does not.
func withoutContent(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("syntax error at byte %d", syntax.Offset)
	}
	return errors.New("it is something else")
}

// agrees tells whether a member is left out, empty, or what it should be.
func agrees(member json.RawMessage, want string) bool {
	if member == nil {
		return true
	}
	var is string
	return json.Unmarshal(member, &is) == nil && (is == "" || is == want)
}

func validateObject(a handler.Action) error {
	switch {
	case len(a.Object) == 0:
		return errors.New("it has no object")
	case len(a.Object) > maxObject:
		return fmt.Errorf("the object has %d bytes; the API server takes %d", len(a.Object), maxObject)
	}
	h, err := headOf(a.Object)
	if err != nil {
		return fmt.Errorf("the object: %w", err)
	}
	if !agrees(h.object["apiVersion"], apiVersion(a.Resource)) {
		return fmt.Errorf("the object's apiVersion is not %s, which the resource says: leave it out", apiVersion(a.Resource))
	}
	if kind := h.object["kind"]; kind != nil && json.Unmarshal(kind, new(string)) != nil {
		return errors.New("the object's kind is no string: leave it out")
	}
	if !agrees(h.metadata["generateName"], "") {
		return errors.New("the object has a generateName: a repeat would make another; name it")
	}
	return validateMetadata(h, a)
}

// validateMetadata sees to it that the body says of its identity what the action says.
func validateMetadata(h head, a handler.Action) error {
	for _, m := range []struct{ name, want string }{
		{"name", a.Name}, {"namespace", a.Namespace}, {"uid", a.UID}, {"resourceVersion", a.ResourceVersion},
	} {
		if !agrees(h.metadata[m.name], m.want) {
			return fmt.Errorf("metadata.%s is not the action's %s: leave it out", m.name, m.name)
		}
	}
	return nil
}

func validatePatch(a handler.Action) error {
	switch {
	case len(a.Patch) == 0:
		return errors.New("it has no patch")
	case len(a.Patch) > maxObject:
		return fmt.Errorf("the patch has %d bytes; the API server takes %d", len(a.Patch), maxObject)
	}
	switch a.PatchType {
	case "", mergePatch:
		h, err := headOf(a.Patch)
		if err != nil {
			return fmt.Errorf("the patch: %w", err)
		}
		return validateMetadata(h, a)
	case jsonPatch:
		_, err := operations(a.Patch)
		return err
	}
	return fmt.Errorf("the patch is neither %s nor %s", mergePatch, jsonPatch)
}

// operations are those of a JSON patch.
func operations(patch json.RawMessage) (list []json.RawMessage, err error) {
	if err := json.Unmarshal(patch, &list); err != nil || list == nil {
		return nil, errors.New("the patch is no JSON list of operations")
	}
	for i, o := range list {
		var op struct {
			Op   *string `json:"op"`
			Path *string `json:"path"`
		}
		if json.Unmarshal(o, &op) != nil || bytes.Equal(o, []byte("null")) || op.Op == nil || op.Path == nil {
			return nil, fmt.Errorf("operation %d of the patch is no object with op and path", i+1)
		}
	}
	return list, nil
}

func apiVersion(r handler.Resource) string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}
