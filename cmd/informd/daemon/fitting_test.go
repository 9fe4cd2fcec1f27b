package daemon

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/config"
)

// openAPI serves the schema of disks, whose spec has one field.
type openAPI struct {
	mu     sync.Mutex
	field  string // "": no schemas at all
	served []string
}

func (o *openAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.served = append(o.served, r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case o.field == "":
		http.NotFound(w, r)
	case r.URL.Path == "/openapi/v3":
		fmt.Fprintf(w, `{"paths": {
			"apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1?hash=%s"},
			"apis/other.com/v1": {"serverRelativeURL": "/openapi/v3/apis/other.com/v1?hash=1"},
			"version": {"serverRelativeURL": "/openapi/v3/version?hash=1"}}}`, o.field)
	case r.URL.Path == "/openapi/v3/apis/example.com/v1":
		fmt.Fprintf(w, `{"paths": {"/apis/example.com/v1/disks": {"get": {"x-kubernetes-action": "list",
			"x-kubernetes-group-version-kind": {"group": "example.com", "version": "v1", "kind": "Disk"}}}},
			"components": {"schemas": {"Disk": {"type": "object",
			"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Disk"}],
			"properties": {"spec": {"type": "object", "properties": {%q: {"type": "integer"}}}}}}}}`, o.field)
	default:
		http.NotFound(w, r)
	}
}

// requests returns the paths that were asked for since the last call.
func (o *openAPI) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	paths := o.served
	o.served = nil
	return paths
}

func (o *openAPI) set(field string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.field = field
}

func TestFitting(t *testing.T) {
	t.Parallel()
	cfg, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: disks}
spec: {resource: example.com/v1/disks, indexes: {bySize: object.spec.size}}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: log}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: large}
spec: {source: disks, handler: log, where: object.spec.size > 1 or object.spec.size < 0}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: fine}
spec: {source: disks, handler: log}
`)}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	api := new(openAPI)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	f := newFitting(client, cfg, slog.New(slog.NewTextHandler(&log, nil)))
	check := func(isNew bool) error { return f.check(t.Context(), cfg, isNew) }

	if err := check(true); err == nil {
		t.Error("a server without schemas has some")
	}
	if api.set("volume"); check(true) != nil {
		t.Fatal("the schemas cannot be read")
	}
	if got := f.misfits("large"); len(got) != 2 || !strings.HasPrefix(got[0],
		"rules.yaml:15:56: there is no field spec.size in example.com/v1/disks; there is volume") {
		t.Errorf("of the rule: %q", got)
	}
	if got := f.misfitsOf("disks"); len(got) != 1 || !strings.HasPrefix(got[0], "rules.yaml:5:") {
		t.Errorf("of the source: %q", got)
	}
	if got := f.misfits("fine"); got != nil {
		t.Errorf("of another rule: %q", got)
	}
	if n := strings.Count(log.String(), "a manifest asks for what cannot be"); n != 3 {
		t.Errorf("%d lines in the log:\n%s", n, &log)
	}

	api.requests()
	if check(false) != nil || !slices.Equal(api.requests(), []string{"/openapi/v3"}) {
		t.Error("schemas that have not changed were read again")
	}
	before := log.Len()
	if check(true) != nil || log.Len() != before {
		t.Errorf("the same misfits are in the log again:\n%s", &log)
	}
	if api.set("size"); check(false) != nil {
		t.Fatal("the schemas cannot be read")
	}
	if len(f.misfits("large"))+len(f.misfitsOf("disks")) > 0 {
		t.Error("a changed schema counts for nothing")
	}
	if api.set(""); check(false) == nil || len(f.misfits("large")) > 0 {
		t.Error("a server in trouble changed what fits")
	}
}

// A panic in the comparison is an error of the comparison.
func TestPanicInTheComparison(t *testing.T) {
	if err := new(fitting).check(t.Context(), new(config.Config), true); err == nil || !strings.Contains(err.Error(), "its own mistake") {
		t.Errorf("got %v", err)
	}
}
