package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The types of patch that an Action may have.
const (
	MergePatch = "application/merge-patch+json" // the default
	JSONPatch  = "application/json-patch+json"
)

// maxObject is the size in bytes that the API server's store allows one object by default.
const maxObject = 3 << 19

// Validate returns what is wrong with the action itself: an unknown verb, a target without a name,
// a missing object, an object that contradicts the target. informd rejects an answer with such an
// action. Validate does not know whether the operator allows the action, or the API server accepts
// it.
func (a Action) Validate() error {
	if err := a.validateTarget(); err != nil {
		return err
	}
	takesStatus := a.Verb == ActionApply || a.Verb == ActionPatch
	if a.Subresource != "" && (a.Subresource != "status" || !takesStatus) {
		return errors.New("the only subresource is status, for apply and patch")
	}
	switch a.Verb {
	case ActionApply:
		return a.validateObject()
	case ActionCreate:
		if a.UID != "" || a.ResourceVersion != "" {
			return errors.New("what is to be created has neither uid nor resourceVersion")
		}
		return a.validateObject()
	case ActionPatch:
		return a.validatePatch()
	case ActionDelete:
		return nil
	case ActionEvent:
		if !eventReason.MatchString(a.Reason) {
			return errors.New(
				"the reason of an Event is one word in CamelCase, of at most 128 bytes")
		}
		return nil
	}
	return errors.New("the verbs are apply, patch, create, delete and event")
}

var (
	eventReason = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,127}$`)
	dnsLabel    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

const maxNameBytes = 253 // as Kubernetes has it

// validateTarget checks that each of the target's names is one segment of a URL's path.
func (a Action) validateTarget() error {
	for part := range strings.SplitSeq(a.Resource.Group, ".") {
		if a.Resource.Group != "" && !dnsLabel.MatchString(part) {
			return errors.New("the resource's group is no DNS name; the core's is empty")
		}
	}
	switch {
	case len(a.Resource.Group) > maxNameBytes ||
		!dnsLabel.MatchString(a.Resource.Version) || !dnsLabel.MatchString(a.Resource.Resource):
		return errors.New("the resource needs a version and a name in lower case, " +
			"as v1 and pods; a subresource is named apart")
	case a.Namespace != "" && !dnsLabel.MatchString(a.Namespace):
		return errors.New("the namespace is no DNS label")
	case a.Name == "":
		return errors.New("it has no name")
	case len(a.Name) > maxNameBytes || a.Name == "." || a.Name == ".." ||
		strings.ContainsAny(a.Name, "/%"):
		return fmt.Errorf("the name is longer than %d bytes, or has a / or %% in it", maxNameBytes)
	}
	return nil
}

// head holds the members of an object or a merge patch, and of its metadata. Their names are
// case-sensitive, as the API server's are.
type head struct{ object, metadata map[string]json.RawMessage }

func headOf(text json.RawMessage) (h head, err error) {
	if h.object, err = members(text); err != nil {
		return h, err
	}
	if metadata, ok := h.object["metadata"]; ok {
		if h.metadata, err = members(metadata); err != nil {
			return h, fmt.Errorf("metadata %w", err)
		}
	}
	return h, nil
}

func members(text json.RawMessage) (m map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(text, &m); err != nil || m == nil {
		return nil, errors.New("is no JSON object") // err may quote it
	}
	return m, nil
}

// agrees reports whether a member is left out, empty, or as wanted.
func agrees(member json.RawMessage, want string) bool {
	var is string
	return member == nil || json.Unmarshal(member, &is) == nil && (is == "" || is == want)
}

func (a Action) validateObject() error {
	switch {
	case len(a.Object) == 0:
		return errors.New("it has no object")
	case len(a.Object) > maxObject:
		return fmt.Errorf("the object has %d bytes; the API server takes %d",
			len(a.Object), maxObject)
	}
	h, err := headOf(a.Object)
	if err != nil {
		return fmt.Errorf("the object: %w", err)
	}
	apiVersion := strings.TrimPrefix(a.Resource.Group+"/"+a.Resource.Version, "/")
	if !agrees(h.object["apiVersion"], apiVersion) {
		return fmt.Errorf("the object's apiVersion must be %s, the resource's: leave it out",
			apiVersion)
	}
	if kind := h.object["kind"]; kind != nil && json.Unmarshal(kind, new(string)) != nil {
		return errors.New("the object's kind is not a string: leave it out")
	}
	if !agrees(h.metadata["generateName"], "") {
		return errors.New("the object has a generateName, and a repeat would make another: name it")
	}
	return a.validateMetadata(h)
}

// validateMetadata checks that an object or patch does not contradict the action's target.
func (a Action) validateMetadata(h head) error {
	for _, m := range []struct{ name, want string }{
		{"name", a.Name}, {"namespace", a.Namespace},
		{"uid", a.UID}, {"resourceVersion", a.ResourceVersion},
	} {
		if !agrees(h.metadata[m.name], m.want) {
			return fmt.Errorf("metadata.%s is not the action's: leave it out", m.name)
		}
	}
	return nil
}

func (a Action) validatePatch() error {
	switch {
	case len(a.Patch) == 0:
		return errors.New("it has no patch")
	case len(a.Patch) > maxObject:
		return fmt.Errorf("the patch has %d bytes; the API server takes %d",
			len(a.Patch), maxObject)
	}
	switch a.PatchType {
	case "", MergePatch:
		h, err := headOf(a.Patch)
		if err != nil {
			return fmt.Errorf("the patch: %w", err)
		}
		return a.validateMetadata(h)
	case JSONPatch:
		return validateOperations(a.Patch)
	}
	return fmt.Errorf("the patch is neither %s nor %s", MergePatch, JSONPatch)
}

func validateOperations(patch json.RawMessage) error {
	var list []json.RawMessage
	if json.Unmarshal(patch, &list) != nil || list == nil {
		return errors.New("the patch is no JSON list of operations")
	}
	for i, o := range list {
		var op struct{ Op, Path *string }
		if json.Unmarshal(o, &op) != nil || bytes.Equal(o, []byte("null")) ||
			op.Op == nil || op.Path == nil {
			return fmt.Errorf("operation %d of the patch is no object with op and path", i+1)
		}
		if *op.Op == "test" {
			continue
		}
		if *op.Path == "/metadata/uid" || *op.Path == "/metadata/resourceVersion" {
			return fmt.Errorf("operation %d of the patch changes what the API server alone does: "+
				"use the action's UID and ResourceVersion to say what the object must be like",
				i+1)
		}
	}
	return nil
}
