package ruletest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/config"
	"github.com/informd/informd/internal/ownfile"
)

// edit is a list of expected events that is to be replaced.
type edit struct {
	config.Extent
	events []string // on one line each
}

// write writes what came into the tests that failed. What else is in their files stays as it is.
// The error says which tests failed for another reason than what came.
func (f *flags) write(cmd *cobra.Command, results []*result) error {
	edits := make(map[string][]edit) // by file
	var files []string
	var broken []string
	for _, r := range results {
		file := r.test.At.Position(0).File
		if len(r.edits) > 0 && edits[file] == nil {
			files = append(files, file)
		}
		edits[file] = append(edits[file], r.edits...)
		for _, f := range r.failures {
			if !f.isVerdict {
				broken = append(broken, r.test.Name)
				fmt.Fprint(cmd.OutOrStdout(), f.text())
			}
		}
	}
	for _, file := range files {
		if err := rewrite(file, edits[file]); err != nil {
			return cli.Failed(err)
		}
		n := len(edits[file])
		if err := cli.Show(cmd, "%s: %d %s written\n", file, n, cli.Plural(n, "expect")); err != nil {
			return err
		}
	}
	if n := len(broken); n > 0 {
		return cli.Failed(fmt.Errorf("%d %s cannot be mended by --update: %s", n,
			cli.Plural(n, "failure"), strings.Join(slices.Compact(broken), ", ")))
	}
	return nil
}

// rewrite replaces parts of a file. It writes a new file and puts it in the place of the old one. It
// follows links, as informd test did when it read the file.
func rewrite(path string, edits []edit) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return ownfile.Write(path, apply(data, edits), 0o644)
}

// maxColumn is how long a line may become before a list gets a line per event.
const maxColumn = 100

// apply returns the text of a file with its edits.
func apply(data []byte, edits []edit) []byte {
	mark := []byte("\ufeff") // extents do not count it
	text, hadMark := bytes.CutPrefix(data, mark)
	out := string(text)
	newline := "\n"
	if strings.Contains(out, "\r\n") {
		newline = "\r\n"
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.Start - a.Start })
	for _, e := range edits {
		out = e.in(out, newline)
	}
	if hadMark {
		out = string(mark) + out
	}
	return []byte(out)
}

// in returns the text with the list replaced. A list within { } stays there; another one is written
// as it was, or with a line per event if it would not fit on one.
func (e edit) in(text, newline string) string {
	line := "[" + strings.Join(e.events, ", ") + "]"
	const key = "expect: "
	fits := e.Indent+len(key)+len(line) <= maxColumn
	block := func(indent int) string {
		by := newline + strings.Repeat(" ", indent)
		return "- " + strings.Join(e.events, by+"- ")
	}
	switch {
	case len(e.events) > 0 && !e.IsFlow: // a block stays a block
		start := strings.LastIndexAny(text[:e.Start], "\r\n") + 1
		return text[:e.Start] + block(e.Start-start) + text[e.End:]
	case !e.IsFlow: // a block becomes []
		return text[:e.Key] + key + line + text[e.End:]
	case e.InFlow || fits || len(e.events) == 0:
		return text[:e.Start] + line + text[e.End:]
	}
	by := newline + strings.Repeat(" ", e.Indent)
	return text[:e.Key] + "expect:" + by + block(e.Indent) + text[e.End:]
}
