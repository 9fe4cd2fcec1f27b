package trial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file is read whole or refused: nothing in it is passed over.
func TestDocumentsAreReadWhole(t *testing.T) {
	for _, c := range []struct {
		why, text string
		documents int
		mistake   string
	}{
		{"two mappings with --- between them", "{a: 1}\n---\n{a: 2}\n", 2, ""},
		{"two values of JSON", `{"a": 1} {"a": 2}`, 2, ""},
		{"the end of a document", "a: 1\n...\n", 1, ""},
		{"a comment after it", "{a: 1}\n# the end\n", 1, ""},
		{"two mappings without ---", "\n{a: 1}\n{a: 2}\n", 0, ":2: more follows this YAML document"},
		{"the same, in the second document", "a: 1\n---\n{a: 2}\n[3]\n", 0, ":3: more follows this YAML document"},
		{"a document after ...", "a: 1\n...\na: 2\n", 0, ":1: more follows this YAML document"},
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := readDocuments(path, nil)
		if len(all) != c.documents || (err == nil) != (c.mistake == "") ||
			err != nil && !strings.Contains(err.Error(), path+c.mistake) {
			t.Errorf("%s: %d documents, error %v; want %d, %q", c.why, len(all), err, c.documents, c.mistake)
		}
	}
}
