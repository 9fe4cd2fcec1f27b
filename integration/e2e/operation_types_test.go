package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

const crates = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crates.types.informd.test}
spec:
  group: types.informd.test
  scope: Namespaced
  names: {plural: crates, singular: crate, kind: Crate}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          metadata: {type: object}
          spec:
            type: object
            properties: {size: {type: integer}, kind: {type: string, enum: [Box, Bag]}}
`

// Rules are checked against the schemas of a cluster: by informd check with what schemas save has
// written, and by informd run, which runs them all the same and says what does not fit.
func TestTypesOfTheCluster(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.DefineWith(crates)
	rules := k.Text(harness.Source("crates", "resource: types.informd.test/v1/crates, namespaces: [NS]") +
		harness.Handler("log", "builtin: log") +
		harness.Rule("right", `source: crates, handler: log, where: object.spec.size > 1 and object.metadata.name != ""`) +
		harness.Rule("wrong", `source: crates, handler: log, where: 'object.spec.sise == nil and object.spec.kind != "box"'`))
	kubeconfig := cluster.Shared(t).Kubeconfig()

	folder := t.TempDir()
	var stdout string
	k.Eventually("the schemas to have the resource", func() bool {
		var code int
		var stderr string
		code, stdout, stderr = harness.Informd(t, "schemas", "save", "--kubeconfig", kubeconfig, "-o", folder)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		_, stderr = checked(t, rules, filepath.Join(folder, "schemas.json"))
		return stderr != ""
	})
	if !strings.Contains(stdout, "schemas.json: the schemas of ") {
		t.Errorf("informd schemas save says %q", stdout)
	}
	_, stderr := checked(t, rules, folder)
	for _, want := range []string{
		"there is no field spec.sise in types.informd.test/v1/crates; did you mean size?",
		`spec.kind of types.informd.test/v1/crates is never "box": it is Bag or Box; did you mean Box?`,
		"2 mistakes",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("informd check does not say %q:\n%s", want, stderr)
		}
	}

	socket := filepath.Join(harness.ShortDir(t), "s")
	d := harness.RunInformd(t, kubeconfig, rules, "--control", socket)
	d.AwaitReady()
	d.AwaitLog("a manifest asks for what cannot be")
	k.Create(`{apiVersion: types.informd.test/v1, kind: Crate, metadata: {namespace: NS, name: a}, spec: {size: 2}}`)
	k.Sees(d, "wrong NS/a added") // it runs all the same
	code, status, stderr := harness.Informd(t, "status", "-o", "json", "--control", socket)
	var said struct {
		Rules []struct {
			Name    string
			Misfits []string
		}
	}
	if err := json.Unmarshal([]byte(status), &said); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	for _, r := range said.Rules {
		if want := map[string]int{"right": 0, "wrong": 2}[r.Name]; len(r.Misfits) != want {
			t.Errorf("rule %s has misfits %q, want %d", r.Name, r.Misfits, want)
		}
	}
	if _, status, _ = harness.Informd(t, "status", "--control", socket); !strings.Contains(status,
		"rule wrong asks for what cannot be: ") {
		t.Errorf("informd status does not mark the rule:\n%s", status)
	}
	if _, why, _ := harness.Informd(t, "explain", "wrong", k.Ns+"/a", "--control", socket); !strings.Contains(why, "\nschema    ") ||
		!strings.Contains(why, ": there is no field spec.sise in types.informd.test/v1/crates; did you mean size?\n") {
		t.Errorf("informd explain does not say what does not fit:\n%s", why)
	}
}

// checked runs informd check with schemas.
func checked(t *testing.T, rules, schemas string) (code int, stderr string) {
	t.Helper()
	code, _, stderr = harness.Informd(t, "check", "--schemas", schemas,
		"-f", harness.WriteFile(t, "rules.yaml", rules))
	return code, stderr
}
