package harness

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// RandomSecret returns a text that cannot be compressed, plain and as a Secret encodes it.
func RandomSecret() (text, encoded string) {
	for {
		text = rand.Text() + rand.Text()
		encoded = base64.StdEncoding.EncodeToString([]byte(text))
		if !strings.Contains(text+encoded, "NS") { // manifests replace NS
			return text, encoded
		}
	}
}

func WantOnDisk(t *testing.T, dir, text string) {
	t.Helper()
	for _, path := range FilesOf(t, dir) {
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(text)) {
			return
		}
	}
	t.Errorf("%q is in no file of %s: looking for secrets there shows nothing", text, dir)
}

// WantNotOnDisk checks that no file below dir contains a value: plain, in base64, or in base64 at
// any offset within a longer text.
func WantNotOnDisk(t *testing.T, dir string, values []string) {
	t.Helper()
	files := FilesOf(t, dir)
	if len(files) == 0 {
		t.Fatalf("no files in %s", dir)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		for i, value := range values {
			forms := map[string]string{"plain": value}
			for offset := range 3 {
				part := value[offset : offset+(len(value)-offset)/3*3]
				inner := base64.RawStdEncoding.EncodeToString([]byte(part))
				forms[fmt.Sprint("base64 at ", offset)] = inner
			}
			for form, text := range forms {
				if bytes.Contains(content, []byte(text)) ||
					len(text) > 40 && bytes.Contains(content, []byte(text[:20])) {
					t.Errorf("%s has value %d, %s", path, i, form)
				}
			}
		}
	}
}

// Away returns the manifest of a handler that never starts, so its deliveries wait.
func Away(name string) string {
	return Handler(name, "builtin: exec, config: {command: [/no/such/command]}")
}

// FilesOf returns the regular files below a folder.
func FilesOf(t testing.TB, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return nil // a file that is gone is no failure
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
