// Package docs checks that the documentation holds together: its links, its index, its length, and
// the log lines that it shows. It needs no cluster.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// files returns the repository's files whose names end in one of the suffixes, without what is
// built or installed.
func files(t *testing.T, suffixes ...string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	coded   = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	image   = regexp.MustCompile(`<img[^>]* src="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	marks   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// prose returns a page without its blocks of code, in which nothing is a link or a heading.
func prose(page string) string { return fenced.ReplaceAllString(page, "") }

// anchors returns the fragments that GitHub gives to a page's headings.
func anchors(page string) map[string]bool {
	found := make(map[string]bool)
	for _, match := range heading.FindAllStringSubmatch(prose(page), -1) {
		text := link.ReplaceAllString(match[1], "]")
		text = strings.ReplaceAll(marks.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		found[text] = true
	}
	return found
}

// Every relative link of every page leads to a file, and its fragment to a heading.
func TestLinks(t *testing.T) {
	checked := 0
	for _, path := range files(t, ".md") {
		text := coded.ReplaceAllString(prose(read(t, path)), "")
		for _, match := range append(link.FindAllStringSubmatch(text, -1), image.FindAllStringSubmatch(text, -1)...) {
			target, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") { // another site
				continue
			}
			checked++
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s leads nowhere", path, match[1])
				continue
			}
			if fragment != "" && !anchors(read(t, to))[fragment] {
				t.Errorf("%s: %s: the page has no such heading", path, match[1])
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}

// Every page that code, comments or manifests name exists.
func TestNamedPages(t *testing.T) {
	page := regexp.MustCompile(`\bdocs/[a-z0-9/_-]+\.md\b`)
	for _, path := range files(t, ".go", ".proto", ".yaml", ".py", ".js", "Makefile") {
		for _, name := range page.FindAllString(read(t, path), -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
	}
}

// Every page of the documentation is in its index.
func TestIndex(t *testing.T) {
	index := read(t, root+"/docs/README.md")
	for _, path := range files(t, ".md") {
		name, err := filepath.Rel(root+"/docs", path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(name, "..") && name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}

// A newcomer reads the README to its end.
func TestREADMEIsShort(t *testing.T) {
	if lines := strings.Count(read(t, root+"/README.md"), "\n"); lines > 120 {
		t.Errorf("README.md has %d lines; 120 are enough: move what is reference to docs/", lines)
	}
}

// The log lines that pages show are still written.
func TestQuotedMessages(t *testing.T) {
	var code strings.Builder
	for _, path := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") {
			code.WriteString(read(t, path))
		}
	}
	message := regexp.MustCompile(`msg="([^"]+)"`)
	for _, path := range files(t, ".md") {
		for _, match := range message.FindAllStringSubmatch(read(t, path), -1) {
			if !strings.Contains(code.String(), match[1]) {
				t.Errorf("%s shows a log line %q, which nothing writes", path, match[1])
			}
		}
	}
}
