package config

import (
	"slices"
	"strings"
	"testing"
)

const accessSources = `
---
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: pods}, spec: {resource: v1/pods}}
---
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: nodes}, spec: {resource: v1/nodes}}
`

// reads returns the names of what a handler with these fields may read, and the mistakes.
func reads(t *testing.T, fields string) (names []string, mistakes Mistakes) {
	t.Helper()
	got, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(
		"{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: a}, spec: {builtin: log, " + fields + "}}" + accessSources)}})
	for _, name := range got.Handlers[0].Read {
		names = append(names, name.String())
	}
	return names, mistakes
}

func TestAccess(t *testing.T) {
	for fields, want := range map[string][]string{
		"env: [A]":                      nil,
		"access: {}":                    nil,
		"access: {read: [pods]}":        {"pods"},
		"access: {read: [pods, nodes]}": {"pods", "nodes"},
	} {
		got, mistakes := reads(t, fields)
		if !slices.Equal(got, want) || len(mistakes) > 0 {
			t.Errorf("%s: %v, %v", fields, got, mistakes)
		}
	}
}

func TestMistakenAccess(t *testing.T) {
	for fields, want := range map[string]string{
		"access: {read: [pod]}":        `there is no Source named "pod"; did you mean "pods"?`,
		"access: {read: [pods, pods]}": `"pods" is in spec.access.read twice`,
		"access: {read: pods}":         "spec.access.read is a list of names of sources: write [pods]",
		"access: {read: {pods: true}}": "spec.access.read must be a list of names of sources",
		"access: {read: []}":           "spec.access.read is empty",
		"access: {read: [5]}":          "an element of spec.access.read must be a string",
		"access: {raed: [pods]}":       `unknown field "spec.access.raed"; did you mean "read"?`,
		"access: [pods]":               "spec.access must be a mapping of read, write, not a list",
		"access: ":                     "spec.access has no value",
	} {
		_, mistakes := reads(t, fields)
		if len(mistakes) != 1 || !strings.Contains(mistakes[0].Message, want) {
			t.Errorf("%s: %v, want …%s…", fields, mistakes, want)
		}
	}
}
