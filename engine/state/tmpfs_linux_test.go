package state

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// tmpfs mounts a small real disk.
func tmpfs(t *testing.T) (dir string) {
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill makes a disk full until the returned function is called.
func fill(t *testing.T, dir string) (empty func()) {
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, zeros{}); err == nil {
		t.Fatal("the disk has no end")
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A small real disk is really full.
func TestFullTmpfs(t *testing.T) {
	dir := tmpfs(t)
	state := filepath.Join(dir, "state")
	l := live(t, open(t, state, Options{limits: quick, FlushEvery: 5 * time.Millisecond}))
	l.record(100)
	l.written()
	empty := fill(t, dir)
	for range 200 {
		l.record(100)
		if l.Status().Trouble != "" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	eventually(t, "the disk is full", func() bool { l.record(50); return strings.Contains(l.Status().Trouble, "no space left") })
	empty()
	l.written()
	l.stop()
	again := open(t, state, Options{})
	l.found(t, again)
	closed(t, again)
}

func TestStartOnARealReadOnlyDisk(t *testing.T) {
	for name, fall := range map[string]func(t *testing.T, dir string) (heal func()){
		"full": fill,
		"read-only": func(t *testing.T, dir string) func() {
			remount := func(flags uintptr) {
				if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=24m"); err != nil {
					t.Fatal(err)
				}
			}
			remount(syscall.MS_RDONLY)
			return func() { remount(0) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tmpfs(t)
			state := filepath.Join(dir, "state")
			l := live(t, open(t, state, Options{FlushEvery: 5 * time.Millisecond}))
			l.record(100)
			l.recorded(func() {
				l.lane.Put(1000, key("w"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "w", 1, "")}}})
			})
			l.stop()
			heal := fall(t, dir)
			s := open(t, state, Options{limits: quick, FlushEvery: 5 * time.Millisecond})
			if trouble := s.Status().Trouble; strings.Count(trouble, "cannot write to "+state) != 1 {
				t.Errorf("trouble: %q", trouble)
			}
			l.found(t, s)
			if _, err := Open(state, Options{}); err == nil || !strings.Contains(err.Error(), "in use") {
				t.Errorf("opened again: %v", err)
			}
			went := l.n
			l = live(t, s)
			l.n = went + 2000
			if keys, err := l.lane.Keys(); len(keys) != 1 || keys[0].Last != 1000 || err != nil {
				t.Errorf("%v, %v", keys, err)
			}
			l.record(200)
			l.recorded(func() {
				l.i.Delete(key("o7"))
				delete(l.want, "o7")
				l.lane.Delete(1000, key("w"))
			})
			heal()
			l.written()
			l.stop()
			again := open(t, state, Options{})
			defer closed(t, again)
			l.found(t, again)
			if keys, err := again.Lane("r", LaneOptions{}).Keys(); len(keys) > 0 || err != nil {
				t.Errorf("there wait %v, %v", keys, err)
			}
			if aside := again.Status().SetAside; len(aside) > 0 {
				t.Errorf("set aside: %v", aside)
			}
		})
	}
}
