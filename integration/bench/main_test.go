package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRun measures everything once, with tiny loads. It checks that each contestant sees exactly
// what is sent and due, and that no figure is missing. `make soak` measures the curves as well.
func TestRun(t *testing.T) {
	dir, full, tables := t.TempDir(), os.Getenv("INFORMD_SOAK") != "", 19
	if full {
		tables = 21
	}
	if out, err := exec.Command("go", "build", "-ldflags=-s", "-o", dir, ".", "../../cmd/informd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := run(t.Context(), filepath.Join(dir, "bench"), filepath.Join(dir, "informd"), "TestRun", scale{objects: 40, updates: 80, rounds: 1, full: full, rest: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	text := r.String()
	t.Logf("\n%s", text)
	if strings.Contains(text, "ERROR") {
		t.Error("figures are missing")
	}
	if len(r.tables) != tables || len(r.targets) < 24 {
		t.Errorf("%d tables and %d targets", len(r.tables), len(r.targets))
	}
}
