package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// The same manifests are tried again after a second, and then later and later; others at once.
func TestTries(t *testing.T) {
	var tries tries
	at := time.Unix(0, 0)
	var pauses []time.Duration
	last := at
	for ; at.Sub(time.Unix(0, 0)) < 5*time.Minute; at = at.Add(time.Second) {
		if tries.areDue("a", at) {
			pauses, last = append(pauses, at.Sub(last)), at
		}
	}
	want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60, 60}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(pauses, want) {
		t.Errorf("the pauses are %v, want %v", pauses, want)
	}
	if !tries.areDue("b", last.Add(time.Second)) || tries.areDue("b", last.Add(time.Second)) {
		t.Error("changed manifests are tried once, at once")
	}
}
