package served

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
)

// documents are what a cluster serves, by path; "broken" cannot be read, and "late" is listed, but
// not there.
type documents map[string]string

func (d documents) PathsWithContext(context.Context) (map[string]openapi.GroupVersionWithContext, error) {
	all := make(map[string]openapi.GroupVersionWithContext)
	for path, text := range d {
		all[path] = document{path, text}
	}
	return all, nil
}

type document struct{ path, text string }

func (d document) SchemaWithContext(context.Context, string) ([]byte, error) {
	switch d.text {
	case "broken":
		return nil, errors.New("connection lost")
	case "late":
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", k8s.GroupResource{}, "", "", 0, true)
	}
	return []byte(d.text), nil
}

func (d document) ServerRelativeURL() string { return d.path + "?hash=" + d.text }

const trees = `{"paths": {"/apis/x/v1/trees": {"get": {"x-kubernetes-action": "list",
	"x-kubernetes-group-version-kind": {"group": "x", "version": "v1", "kind": "Tree"}}}},
	"components": {"schemas": {"Tree": {"type": "object",
	"x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "Tree"}]}}}}`

// The API server has no document, or an empty one, for a group that comes or goes: it has no schemas.
// It counts as changed when it has some.
func TestEmptyDocument(t *testing.T) {
	r := &Reader{client: documents{"apis/x/v1": trees, "apis/gone/v1": "", "apis/late/v1": "late", "api/v1": "\n"}}
	text, err := r.Save(t.Context())
	if err != nil || !strings.Contains(string(text), "trees") {
		t.Errorf("%s, %v", text, err)
	}
	of := []k8s.GroupVersion{
		{Group: "x", Version: "v1"}, {Group: "gone", Version: "v1"}, {Group: "late", Version: "v1"},
	}
	c, err := r.Catalog(t.Context(), of)
	if err != nil || c.Len() != 1 {
		t.Errorf("%v, %v", c, err)
	}
	if changed, err := r.Changed(t.Context(), of); !changed || err != nil {
		t.Errorf("while some are listed without a document: %v, %v", changed, err)
	}
	if _, err := r.Catalog(t.Context(), of[:1]); err != nil {
		t.Fatal(err)
	}
	if changed, err := r.Changed(t.Context(), of[:1]); changed || err != nil {
		t.Errorf("when all have theirs: %v, %v", changed, err)
	}
}

// What cannot be read is named, and the rest is there.
func TestBrokenDocument(t *testing.T) {
	r := &Reader{client: documents{"apis/x/v1": trees, "apis/y/v1": "broken", "apis/z/v1": "{"}}
	text, err := r.Save(t.Context())
	if !strings.Contains(string(text), "trees") || err == nil ||
		!strings.Contains(err.Error(), "schemas of y/v1 cannot be read: connection lost") || !strings.Contains(err.Error(), "schemas of z/v1 cannot be read") {
		t.Errorf("%s, %v", text, err)
	}
}
