package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Source, Handler and Rule return a manifest on one line. spec has the members of the spec in
// YAML's flow style.
func Source(name, spec string) string { return manifest("Source", name, spec) }

// Handler hands the race detector's options on to the handler, where informd starts it as a process.
func Handler(name, spec string) string {
	switch isRemote := strings.Contains(spec, "address: "); {
	case !HasRace || isRemote:
	case strings.Contains(spec, "env: ["):
		spec = strings.Replace(spec, "env: [", "env: [GORACE, ", 1)
	default:
		spec += ", env: [GORACE]"
	}
	return manifest("Handler", name, spec)
}

func Rule(name, spec string) string { return manifest("Rule", name, spec) }

func manifest(kind, name, spec string) string {
	return fmt.Sprintf("---\n"+
		"{apiVersion: informd.dev/v1alpha1, kind: %s, metadata: {name: %s}, spec: {%s}}\n",
		kind, name, spec)
}

const (
	// ConfigMaps is the spec of a Source for those of the test's namespace.
	ConfigMaps = "resource: v1/configmaps, namespaces: [NS]"
	Script     = "builtin: exec, env: [PATH], config: {command: [./handle.sh]}, " +
		"retry: {backoff: 10ms, maxBackoff: 100ms}"
)

// Folder makes a folder with rules.yaml and handle.sh, which the exec builtin runs there for each
// event.
func Folder(t testing.TB, rules, handle string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\n" + handle + "\n"
	for name, content := range map[string]string{"rules.yaml": rules, "handle.sh": script} {
		WriteProgram(t, filepath.Join(dir, name), content, 0o700)
	}
	return dir
}

// LinesOf returns the lines of a file in a folder, or none if there is no such file. It leaves out a
// last line without a line break, because that may still be written.
func LinesOf(t testing.TB, dir, name string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	whole := string(content[:bytes.LastIndexByte(content, '\n')+1])
	return strings.FieldsFunc(whole, func(r rune) bool { return r == '\n' })
}

// Touch makes an empty file. A script may be waiting for it.
func Touch(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func Pod(name, image string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {namespace: NS, name: ` + name +
		`}, spec: {containers: [{name: main, image: "` + image + `"}]}}`
}

func ConfigMap(name, data string) string {
	return `{apiVersion: v1, kind: ConfigMap, ` +
		`metadata: {namespace: NS, name: ` + name + `}, data: ` + data + `}`
}

// PodOn returns the manifest of a Pod that is bound to a node.
func PodOn(name, node string) string {
	return strings.Replace(Pod(name, "nginx"), "spec: {", "spec: {nodeName: "+node+", ", 1)
}
