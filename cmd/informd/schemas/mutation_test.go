package schemas

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/schema"
)

// paths matches what an expression asks of an object, up to a method or a function.
var (
	paths = regexp.MustCompile(`\b(object|old|item)((?:\.[a-zA-Z]+)+)`)
	open  = regexp.MustCompile(`\.(labels|annotations|data|stringData|binaryData|nodeSelector|matchLabels|allocatable|capacity|requests|limits|hard|used)\.`)
)

// A wrong field in a real rule file is found, at its place, whichever field it is.
func TestWrongFieldsAreFound(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..", "examples")
	given, err := Read([]string{filepath.Join("testdata", "examples.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	files, fields := 0, 0
	for _, folder := range []string{"rules", "actions"} {
		names, err := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range names {
			if config.IsTestFile(path) {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := wrongFields(t, path, string(data), given); n > 0 {
				files, fields = files+1, fields+n
			}
		}
	}
	t.Logf("%d wrong fields in %d files", fields, files)
	if files < 20 {
		t.Errorf("only %d files have fields to change, want 20", files)
	}
}

// wrongFields changes one field of a file after the other. It returns how many.
func wrongFields(t *testing.T, path, text string, given *schema.Catalog) (n int) {
	t.Helper()
	for _, m := range paths.FindAllStringSubmatchIndex(text, -1) {
		whole := text[m[0]:m[1]]
		lineStart := strings.LastIndexByte(text[:m[0]], '\n') + 1
		if strings.HasPrefix(strings.TrimSpace(text[lineStart:m[0]]), "#") || open.MatchString(whole) ||
			strings.HasPrefix(whole, "item.") || strings.HasPrefix(text[m[1]:], "(") {
			continue
		}
		wrong := text[:m[1]] + "Zz" + text[m[1]:]
		field := m[0] + strings.LastIndexByte(whole, '.') + 1
		cfg, _ := config.Parse([]config.File{{Path: path, Data: []byte(wrong)}})
		line := 1 + strings.Count(text[:field], "\n")
		column := 1 + len([]rune(text[strings.LastIndexByte(text[:field], '\n')+1:field]))
		found, _ := Check(cfg, given, nil)
		if !slices.ContainsFunc(found, func(m config.Mistake) bool {
			return m.Line == line && m.Column == column && strings.HasPrefix(m.Message, "there is no field")
		}) {
			t.Errorf("%s:%d:%d: %sZz is not found: %v", path, line, column, whole, found)
		}
		n++
	}
	return n
}
