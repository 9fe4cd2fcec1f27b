// Package schemas finds the schemas that expressions are checked against: those of Kubernetes' own
// resources, which are built in, those in files, and those of a cluster.
package schemas

import (
	"bytes"
	"compress/gzip"
	_ "embed" // of the built-in schemas
	"fmt"
	"io"
	"sync"

	"github.com/informd/informd/engine/schema"
)

//go:generate go run ./generate -o builtin.json.gz v1.30.14 v1.31.14 v1.32.13 v1.33.13 v1.34.4 v1.35.4 v1.36.3 v1.37.2

// packed is what generate writes. A field that any of its versions of Kubernetes knows is in it.
//
//go:embed builtin.json.gz
var packed []byte

// BuiltIn returns the schemas of Kubernetes' own resources, and their versions, as "1.30 to 1.37".
// The caller must not change them.
var BuiltIn = sync.OnceValues(func() (*schema.Catalog, string) {
	catalog, versions, err := readBuiltIn()
	if err != nil {
		panic(err) // a test reads them
	}
	return catalog, versions
})

func readBuiltIn() (*schema.Catalog, string, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, "", fmt.Errorf("built-in schemas: %w", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, "", fmt.Errorf("built-in schemas: %w", err)
	}
	catalog := schema.NewCatalog(nil)
	if err := catalog.AddOpenAPI(text); err != nil {
		return nil, "", fmt.Errorf("built-in schemas: %w", err)
	}
	return catalog, r.Comment, nil
}
