package offline

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestCheckWatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(resource string) {
		t.Helper()
		text := "apiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: a}\nspec: {" + resource + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("resource: v1/pods")
	ctx, cancel := context.WithCancel(t.Context())
	cmd := NewCheckCommand("test")
	var out buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"-f", path, "--watch"})
	ended := make(chan error)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	awaits := func(text string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(out.String(), text); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %q in:\n%s", text, out.String())
			}
		}
	}
	awaits("ok: 1 source")
	write("resources: v1/pods")
	awaits(`did you mean "resource"?`)
	awaits("1 mistake\n")
	write("resource: v1/nodes, keep: needed")
	awaits("source a keeps only")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
