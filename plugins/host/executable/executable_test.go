package executable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Anything may replace a program at its path. It costs the daemon neither memory nor time.
func TestDigestOfUnusualFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o755); err != nil {
		t.Fatal(err)
	}
	sparse := func(name string, size int64) string {
		path := filepath.Join(dir, name)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
		if err == nil {
			err = errors.Join(f.Truncate(size), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		what, path string
		ctx        context.Context
		want       string
	}{
		{"a pipe without a writer", pipe, t.Context(), "pipe is not a file"},
		{"a device without end", "/dev/zero", t.Context(), "/dev/zero is not a file"},
		{"a file of a terabyte", sparse("tera", 1<<40), t.Context(), "tera has 1099511627776 bytes, and a program with a sha256 may have at most 1073741824"},
		{"a large file, after the daemon began to stop", sparse("large", maxDigested), ended, "context canceled"},
		{"a file without content", sparse("empty", 0), t.Context(), "its sha256 is e3b0c442"},
	} {
		t.Run(c.what, func(t *testing.T) {
			told := make(chan error, 1)
			go func() {
				f, err := openDigested(c.ctx, c.path, strings.Repeat("a", 64))
				if err == nil {
					_ = f.Close()
				}
				told <- err
			}()
			select {
			case err := <-told:
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want …%s…", err, c.want)
				}
			case <-time.After(10 * time.Second):
				t.Error("it is waited for")
				if f, err := os.OpenFile(c.path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
					_ = f.Close() // lets the pipe's reader go
				}
			}
		})
	}
}
