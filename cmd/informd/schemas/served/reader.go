// Package served reads the schemas that a cluster serves, and is informd schemas save.
package served

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"

	"github.com/informd/informd/engine/schema"
)

// Reader reads the schemas of a cluster: its OpenAPI v3 documents, one per group and version. By
// default, everybody who may authenticate may read them. A Reader is not for concurrent use.
type Reader struct {
	client openapi.ClientWithContext
	read   map[k8s.GroupVersion]string // by what was read: its URL, which has a hash
}

// NewReader returns a Reader. It sends nothing.
func NewReader(client discovery.DiscoveryInterface) *Reader {
	return &Reader{client: openapi.NewClientWithContext(client.RESTClient())}
}

// Changed reports whether the schemas of some groups and versions may have changed since Catalog has
// read them. It costs one small request, whatever their number.
func (r *Reader) Changed(ctx context.Context, of []k8s.GroupVersion) (bool, error) {
	documents, err := r.list(ctx)
	if err != nil {
		return false, err
	}
	return !maps.Equal(r.read, urls(documents, of)), nil
}

// Catalog reads the schemas of some groups and versions. It leaves out those that the cluster does
// not serve.
func (r *Reader) Catalog(ctx context.Context, of []k8s.GroupVersion) (*Schemas, error) {
	documents, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	catalog := schema.NewCatalog(nil)
	found := urls(documents, of)
	for gv := range maps.Clone(found) {
		text, err := read(ctx, documents[gv])
		switch {
		case err == nil && text == nil:
			delete(found, gv) // so that it counts as changed when it is there
		case err == nil:
			err = catalog.AddOpenAPI(text)
		}
		if err != nil {
			return nil, fmt.Errorf("schemas of %s: %w", gv, err)
		}
	}
	r.read = found
	return &Schemas{catalog}, nil
}

// Schemas are the schemas of a cluster.
type Schemas struct{ *schema.Catalog }

// Resources returns nil: who watches a resource finds out by itself whether the cluster serves it.
func (Schemas) Resources(k8s.GroupVersion) []string { return nil }

// maxTotal bounds what Save reads, because the API server says how many schemas there are.
const maxTotal = 1 << 30

// Save returns all schemas of the cluster, as informd check --schemas reads them. An error beside them lists the
// groups and versions that could not be read.
func (r *Reader) Save(ctx context.Context) ([]byte, error) {
	documents, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	var texts [][]byte
	var failures []error
	total := 0
	for _, gv := range slices.SortedFunc(maps.Keys(documents), func(a, b k8s.GroupVersion) int {
		return strings.Compare(a.String(), b.String())
	}) {
		text, err := read(ctx, documents[gv])
		if total += len(text); total > maxTotal {
			return nil, fmt.Errorf("the API server's schemas have more than %d MiB", maxTotal>>20)
		}
		if err == nil && text != nil {
			_, err = schema.Condense(text)
		}
		switch {
		case err != nil:
			failures = append(failures, fmt.Errorf("schemas of %s cannot be read: %w", gv, err))
		case text != nil:
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil, errors.Join(failures...)
	}
	text, err := schema.Condense(texts...)
	return text, errors.Join(append(failures, err)...)
}

// read reads the document of a group and version. While the last resource of a group comes or goes,
// the API server lists the document for a moment, but it is empty or not there: then read returns
// nil.
func read(ctx context.Context, document openapi.GroupVersionWithContext) ([]byte, error) {
	text, err := document.SchemaWithContext(ctx, "application/json")
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil || len(bytes.TrimSpace(text)) == 0:
		return nil, err
	}
	return text, nil
}

func (r *Reader) list(ctx context.Context) (map[k8s.GroupVersion]openapi.GroupVersionWithContext, error) {
	paths, err := r.client.PathsWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the schemas: %w", err)
	}
	out := make(map[k8s.GroupVersion]openapi.GroupVersionWithContext)
	for path, document := range paths {
		parts := strings.Split(path, "/")
		switch {
		case len(parts) == 2 && parts[0] == "api":
			out[k8s.GroupVersion{Version: parts[1]}] = document
		case len(parts) == 3 && parts[0] == "apis":
			out[k8s.GroupVersion{Group: parts[1], Version: parts[2]}] = document
		}
	}
	return out, nil
}

// urls returns those of documents.
func urls(
	documents map[k8s.GroupVersion]openapi.GroupVersionWithContext, of []k8s.GroupVersion,
) map[k8s.GroupVersion]string {
	out := make(map[k8s.GroupVersion]string)
	for _, gv := range of {
		if document := documents[gv]; document != nil {
			out[gv] = document.ServerRelativeURL()
		}
	}
	return out
}
