package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A mounted ConfigMap whose link is switched while it is read is read as it was before, or as it is
// after that.
func TestReadWhileLinksAreSwitched(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const files = 10
	point := func(version int) error { // each version has a folder of its own, as the kubelet does it
		data := fmt.Sprint("..version", version)
		if err := os.Mkdir(filepath.Join(folder, data), 0o700); err != nil {
			return err
		}
		for i := range files {
			path := filepath.Join(folder, data, fmt.Sprintf("%d.yaml", i))
			if err := os.WriteFile(path, fmt.Append(nil, version), 0o600); err != nil {
				return err
			}
		}
		next := filepath.Join(folder, "..next")
		if err := os.Symlink(data, next); err != nil {
			return err
		}
		link := filepath.Join(folder, "..data")
		before, _ := os.Readlink(link) // there is none at first
		if err := os.Rename(next, link); err != nil || before == "" {
			return err
		}
		return os.RemoveAll(filepath.Join(folder, before))
	}
	must(point(0))
	for i := range files {
		name := fmt.Sprintf("%d.yaml", i)
		must(os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)))
	}
	var isOver atomic.Bool
	var pause atomic.Int64 // between two versions
	pause.Store(int64(3 * time.Millisecond))
	var switching sync.WaitGroup
	switching.Go(func() {
		for version := 1; !isOver.Load(); version++ {
			if err := point(version); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Duration(pause.Load()))
		}
	})
	defer switching.Wait()
	defer isOver.Store(true)
	// The pauses get longer, so that Read finds one that is long enough, however slow the machine.
	for whole := 0; whole < 20; {
		read, err := Read([]string{folder})
		if err != nil { // it changed all the time
			pause.Add(int64(time.Millisecond))
			continue
		}
		whole++
		if len(read) != files {
			t.Fatalf("%d files", len(read))
		}
		for _, f := range read {
			if string(f.Data) != string(read[0].Data) {
				t.Fatalf("%s is of version %s, and %s of version %s",
					read[0].Path, read[0].Data, f.Path, f.Data)
			}
		}
	}
}
