package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/cmd/informd/manifests"
)

// Manifests that change between their loading and the beginning of the watch are noticed.
func TestWatchNoticesChangesDuringTheStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(reloadable1)
	c := &current{
		paths: []string{path}, log: slog.New(slog.DiscardHandler),
		loaded: manifests.Fingerprint([]string{path}),
	}
	write("a mistake, so that there is nothing to take up")
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { c.watch(ctx) })
	for deadline := time.Now().Add(time.Minute); c.last.Load() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("it was not noticed")
			break
		}
	}
	cancel()
	watching.Wait()
}
