package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/informd/informd/cmd/informd/cli"
)

var (
	block  = regexp.MustCompile("(?ms)^```([a-z-]*)\n(.*?)^```$")
	inCode = regexp.MustCompile("`([a-z_]+\\.yaml)`")
)

// The tutorial about tests shows what happens: its manifests are saved under the last file that the
// text before them names, and each command prints what the page says.
func TestTutorialOfTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/tutorials/test-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	text, commands := string(page), 0
	for _, at := range block.FindAllStringSubmatchIndex(text, -1) {
		content := text[at[4]:at[5]]
		if kind := text[at[2]:at[3]]; kind == "yaml" {
			names := inCode.FindAllStringSubmatch(text[:at[0]], -1)
			name := names[len(names)-1][1]
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
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
	if commands < 5 {
		t.Errorf("the page has only %d commands", commands)
	}
}
