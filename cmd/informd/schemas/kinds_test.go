package schemas

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// config/ownkinds.go has the resources and kinds that are built in, no more and no fewer.
func TestOwnKinds(t *testing.T) {
	t.Parallel()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]struct {
			Get *struct {
				Of struct{ Kind string } `json:"x-kubernetes-group-version-kind"`
			}
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]bool)
	for path, operations := range document.Paths {
		if operations.Get != nil {
			resource := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
			rows[resource+" "+operations.Get.Of.Kind] = true
		}
	}
	source, err := os.ReadFile("../../../config/ownkinds.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(source), "`\n")
	want := strings.Join(slices.Sorted(maps.Keys(rows)), "\n") + "\n`\n"
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("config/ownkinds.go must have:\n%s\n%s", want, diff)
	}
}
