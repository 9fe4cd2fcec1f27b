package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Manifests on a line each, with the members of spec in YAML's flow style.
func source(name, spec string) string  { return manifest("Source", name, spec) }
func toldBy(name, spec string) string  { return manifest("Handler", name, spec) }
func ruleFor(name, spec string) string { return manifest("Rule", name, spec) }

func manifest(kind, name, spec string) string {
	return fmt.Sprintf("---\n{apiVersion: informd.dev/v1alpha1, kind: %s, metadata: {name: %s}, spec: {%s}}\n", kind, name, spec)
}

const (
	configMaps = "resource: v1/configmaps, namespaces: [NS]" // a Source's spec: those of the test's namespace
	script     = "builtin: exec, env: [PATH], config: {command: [./handle.sh]}, retry: {backoff: 10ms, maxBackoff: 100ms}"
)

// folder holds rules and, beside them, handle.sh, which the exec builtin runs there for each event.
func folder(t testing.TB, rules, handle string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"rules.yaml": rules, "handle.sh": "#!/bin/sh\n" + handle + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// linesOf reads a file in a folder; it has none if it is not there.
func linesOf(t testing.TB, dir, name string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(content), func(r rune) bool { return r == '\n' })
}

// touch makes an empty file, for which a script may be waiting.
func touch(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
