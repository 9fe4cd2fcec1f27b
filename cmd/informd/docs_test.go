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
