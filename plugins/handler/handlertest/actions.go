package handlertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/informd/informd/plugins/handler"
)

// impossible tells whether an error is about an answer that the host made nothing of.
func impossible(err error) bool {
	said := err.Error()
	return errors.Is(err, handler.ErrReject) &&
		(strings.Contains(said, "actions; at most") || strings.Contains(said, "of the answer is of a kind that this informd does not know"))
}

const maxObject = 3 << 19 // bytes; the API server takes no larger ones

var (
	version   = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	resource  = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,127}$`)
)

// malformed says what of an action no cluster and no operator could mend.
func malformed(a handler.Action) error {
	switch {
	case !version.MatchString(a.Resource.Version) || !resource.MatchString(a.Resource.Resource):
		return fmt.Errorf(`%s: its resource is %q of version %q of group %q: want as the API server names it, {"apps", "v1", "deployments"}`,
			a.Verb, a.Resource.Resource, a.Resource.Version, a.Resource.Group)
	case a.Name == "":
		return fmt.Errorf("%s: it names no object", a.Verb)
	case strings.ContainsAny(a.Name+a.Namespace, "/%") || a.Name == "." || a.Name == "..":
		return fmt.Errorf("%s: nothing can be called %q in %q", a.Verb, a.Name, a.Namespace)
	}
	switch a.Verb {
	case handler.ActionApply, handler.ActionCreate:
		return malformedObject(a)
	case handler.ActionPatch:
		return malformedPatch(a)
	case handler.ActionEvent:
		switch {
		case !camelCase.MatchString(a.Reason):
			return fmt.Errorf("event: its reason is %q: want CamelCase of at most 128 bytes", a.Reason)
		case len(a.Message) > 1024:
			return fmt.Errorf("event: its message has %d bytes, want at most 1024", len(a.Message))
		}
	case handler.ActionDelete:
	default:
		return fmt.Errorf("there is no verb %q", a.Verb)
	}
	return nil
}

func malformedObject(a handler.Action) error {
	if len(a.Object) > maxObject {
		return fmt.Errorf("%s: its object has %d bytes, want at most %d", a.Verb, len(a.Object), maxObject)
	}
	var o struct {
		APIVersion string
		Kind       string
		Metadata   struct{ Name, GenerateName, Namespace string }
	}
	err := json.Unmarshal(a.Object, &o)
	if err == nil && !bytes.HasPrefix(bytes.TrimSpace(a.Object), []byte("{")) {
		err = errors.New("null")
	}
	if err != nil {
		return fmt.Errorf("%s: its object is no object of a cluster as JSON: %w", a.Verb, err)
	}
	version := strings.TrimPrefix(a.Resource.Group+"/"+a.Resource.Version, "/")
	for _, c := range []struct{ field, has, want string }{
		{"apiVersion", o.APIVersion, version},
		{"metadata.name", o.Metadata.Name, a.Name},
		{"metadata.namespace", o.Metadata.Namespace, a.Namespace},
		{"metadata.generateName", o.Metadata.GenerateName, ""},
	} {
		if c.has != "" && c.has != c.want {
			return fmt.Errorf("%s: its object has %s %q, want %q or none", a.Verb, c.field, c.has, c.want)
		}
	}
	return nil
}

func malformedPatch(a handler.Action) error {
	var err error
	switch a.PatchType {
	case "", "application/merge-patch+json":
		var patch map[string]json.RawMessage
		if err = json.Unmarshal(a.Patch, &patch); err == nil && patch == nil {
			err = errors.New("null")
		}
	case "application/json-patch+json":
		var operations []struct{ Op, Path string }
		err = json.Unmarshal(a.Patch, &operations)
		for i, o := range operations {
			if o.Op == "" {
				err = fmt.Errorf("operation %d has no op", i+1)
			}
		}
	default:
		return fmt.Errorf("patch: its type is %q: want application/merge-patch+json or application/json-patch+json", a.PatchType)
	}
	if err != nil {
		return fmt.Errorf("patch: it is none of type %s: %w", cmp.Or(a.PatchType, "application/merge-patch+json"), err)
	}
	return nil
}
