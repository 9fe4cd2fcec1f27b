package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what Parse reports into testdata/mistakes")

// TestMistakes compares whole reports. Each file of testdata/mistakes holds the manifests, and the
// report as its last part.
func TestMistakes(t *testing.T) {
	paths, err := filepath.Glob("testdata/mistakes/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var files []File
			var want []byte
			var kept []txtar.File
			for _, f := range archive.Files {
				if f.Name == "report" {
					want = f.Data
					continue
				}
				files = append(files, File{Path: f.Name, Data: f.Data})
				kept = append(kept, f)
			}
			_, mistakes := Parse(files)
			got := []byte(mistakes.Error() + "\n")
			if *update {
				archive.Files = append(kept, txtar.File{Name: "report", Data: got})
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(got, want) {
				t.Errorf("report (-want +got):\n%s", cmp.Diff(string(want), string(got)))
			}
		})
	}
}

func TestMistakesAreBounded(t *testing.T) {
	t.Run("a report spells out a hundred", func(t *testing.T) {
		var m Mistakes
		for i := range 250 {
			m = append(m, Mistake{Message: fmt.Sprint("m", i)})
		}
		lines := strings.Split(m.Error(), "\n")
		if len(lines) != 101 || lines[99] != "m99" || lines[100] != "… and 150 more" {
			t.Errorf("got %d lines, ending in %q", len(lines), lines[len(lines)-2:])
		}
	})
	t.Run("a file yields at most a thousand, and Parse still reads the other files", func(t *testing.T) {
		_, m := Parse([]File{
			{Path: "a.yaml", Data: []byte(strings.Repeat("x: y\n---\n", 5000))},
			{Path: "b.yaml", Data: []byte("kind: Sauce")},
		})
		var stopped, other bool
		for _, mistake := range m {
			stopped = stopped || strings.Contains(mistake.Message, "the rest of the file has not been checked")
			other = other || mistake.File == "b.yaml"
		}
		if !stopped || !other || len(m) > 1100 {
			t.Errorf("got %d mistakes, want at most 1100; says that it stopped: %v; has one of b.yaml: %v", len(m), stopped, other)
		}
	})
}

func TestErrIsNilWithoutMistakes(t *testing.T) {
	if err := (Mistakes{}).Err(); err != nil {
		t.Errorf("got %v", err)
	}
}
