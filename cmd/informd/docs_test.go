package main

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/informd/informd/cmd/informd/cli"
)

var (
	block  = regexp.MustCompile("(?ms)^```([a-z-]*)\n(.*?)^```$")
	inCode = regexp.MustCompile("`([a-z_]+\\.(?:yaml|jsonl))`")
)

// A page whose commands need no cluster shows what happens.
func TestPages(t *testing.T) {
	for page, commands := range map[string]int{
		"tutorials/test-rules.md": 5, "guides/record-and-replay.md": 2, "guides/write-a-controller.md": 2,
	} {
		t.Run(page, func(t *testing.T) { playPage(t, page, commands) })
	}
}

// playPage saves the files of a page under the last name that the text before them has, and compares
// what each command prints with what the page says. Blocks of other languages are left out.
func playPage(t *testing.T, path string, atLeast int) {
	page, err := os.ReadFile("../../docs/" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	text, commands := string(page), 0
	for _, at := range block.FindAllStringSubmatchIndex(text, -1) {
		content := text[at[4]:at[5]]
		switch text[at[2]:at[3]] {
		case "yaml", "jsonl":
			names := inCode.FindAllStringSubmatch(text[:at[0]], -1)
			name := names[len(names)-1][1]
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		case "":
		default:
			continue
		}
		for command := range strings.SplitSeq(strings.TrimPrefix(content, "$ "), "\n$ ") {
			line, want, _ := strings.Cut(command, "\n")
			var out bytes.Buffer
			args := strings.Fields(line)
			if args[0] != "informd" {
				t.Fatalf("%q is not a command", line)
			}
			cli.Execute(t.Context(), newRoot(), args[1:], &out, &out)
			if got := out.String(); strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("%s prints\n%s\nthe page says\n%s", line, got, want)
			}
			commands++
		}
	}
	if commands < atLeast {
		t.Errorf("the page has only %d commands", commands)
	}
}

const manifestOf = "apiVersion: informd.dev/v1alpha1\nkind: "

// The rules that newcomers copy first do what their pages say. A Pod that is deleted has not failed
// again, and the age of a Job counts from its end.
func TestRulesOfPages(t *testing.T) {
	for _, c := range []struct{ page, language, has, before, test string }{
		{page: "../../README.md", language: "yaml", has: "failed-pods", test: `
  rules: [failed-pods]
  steps:
  - apply: {source: pods, object: {metadata: {name: web, namespace: shop}, status: {phase: Running}}}
    expect: []
  - patch: {source: pods, namespace: shop, name: web, merge: {status: {phase: Failed}}}
    expect: [{event: updated, payload: {pod: web, text: Pod web failed on no node}}]
  - delete: {source: pods, namespace: shop, name: web}
    expect: []
`},
		{
			page: "../../docs/concepts/time.md", language: "yaml-snippet", has: "every night",
			before: manifestOf + "Source\nmetadata: {name: jobs}\nspec: {resource: batch/v1/jobs}\n---\n" +
				manifestOf + "Rule\nmetadata: {name: nightly}\nspec:\n", test: `
  rules: [nightly]
  start: 2026-01-02T01:59:30Z
  steps:
  - apply:
      source: jobs
      object:
        metadata: {name: old, namespace: shop, creationTimestamp: 2025-01-01T00:00:00Z}
        status: {conditions: [{type: Failed, status: "True", lastTransitionTime: 2026-01-02T01:59:00Z}]}
  - {after: 167h, expect: []}
  - {after: 2h, expect: [{name: old, actions: [delete: {}]}]}
`,
		},
	} {
		t.Run(c.has, func(t *testing.T) {
			page, err := os.ReadFile(c.page)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			for _, found := range block.FindAllStringSubmatch(string(page), -1) {
				if found[1] != c.language || !strings.Contains(found[2], c.has) {
					continue
				}
				text := found[2]
				if c.before != "" {
					text = c.before + "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
				}
				test := manifestOf + "Test\nmetadata: {name: a}\nspec:" + c.test
				err := errors.Join(os.WriteFile("a.yaml", []byte(text), 0o600), os.WriteFile("a_test.yaml", []byte(test), 0o600))
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				if code := cli.Execute(t.Context(), newRoot(), []string{"test", "-f", "."}, &out, &out); code != 0 {
					t.Errorf("exit code %d\n%s", code, out.String())
				}
				return
			}
			t.Error("the page has no such rule")
		})
	}
}
