package e2e

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/integration/harness"
)

// disk is a file system of its own, in an image, to which a test does harm.
type disk struct {
	t   testing.TB
	dir string
}

// thawCommand, as the first argument, makes the test binary wait until its standard input ends.
// Then it lets the disk go that the second argument names. Otherwise a test binary that was killed
// would leave processes behind that wait for a disk, which nothing can end.
const thawCommand = "thaw"

func thawWhenOver(dir string) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the tests end by these
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = freezing(dir, unfreeze)
	_ = syscall.Unmount(dir, syscall.MNT_DETACH)
}

// These are requests for ioctl, FIFREEZE and FITHAW.
const (
	freeze   = 0xC0045877
	unfreeze = 0xC0045878
)

// freezing makes the file system at dir hang, or go on.
func freezing(dir string, request uint) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetInt(int(f.Fd()), request, 0)
}

// canMount returns why no disk can be mounted here, or "".
var canMount = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "informd")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	why := mountImage(dir)
	if why == "" {
		_ = syscall.Unmount(dir, 0)
	}
	return why
})

// mountImage mounts a new file system at dir. It returns why it cannot.
func mountImage(dir string) (why string) {
	image := dir + ".image"
	defer os.Remove(image) // the mount keeps its content
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err.Error()
	}
	if err := os.Truncate(image, 768<<20); err != nil {
		return err.Error()
	}
	for _, line := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", image},
		{"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			return fmt.Sprintf("needs root, e2fsprogs and loop devices, to mount a disk: %s: %v: %s",
				line[0], err, out)
		}
	}
	return ""
}

// newDisk mounts a disk until the end of the test.
func newDisk(t testing.TB) *disk {
	t.Helper()
	if why := canMount(); why != "" {
		harness.Lacks(t, why)
	}
	d := &disk{t: t, dir: harness.ShortDir(t)}
	if why := mountImage(d.dir); why != "" {
		t.Fatal(why)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	guard := exec.Command(self, thawCommand, d.dir)
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it outlives them
	alive, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = alive.Close()
		_ = guard.Wait() // it has unmounted the disk
	})
	return d
}

// hang makes all that writes to the disk wait, until goOn is called.
func (d *disk) hang() (goOn func()) {
	d.freeze()
	return sync.OnceFunc(d.thaw)
}

func (d *disk) freeze() {
	if err := freezing(d.dir, freeze); err != nil {
		d.t.Errorf("freeze the disk %s: %v", d.dir, err)
	}
}

// thaw makes the disk go on, unless kill did.
func (d *disk) thaw() {
	if err := freezing(d.dir, unfreeze); err != nil && !errors.Is(err, unix.EINVAL) {
		d.t.Errorf("thaw the disk %s: %v", d.dir, err)
	}
}

// slow makes the disk hang for most of the time, each time for a while, until quick is called.
func (d *disk) slow(while time.Duration) (quick func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			d.freeze()
			time.Sleep(while)
			d.thaw()
			select {
			case <-over:
				return
			case <-time.After(while / 8):
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-done
	})
}

// fill takes all room on the disk, until empty is called.
func (d *disk) fill() (empty func()) {
	path := filepath.Join(d.dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		d.t.Errorf("fill the disk: %v", err)
		return func() {}
	}
	defer f.Close()
	var is unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &is); err != nil {
		d.t.Errorf("fill the disk: %v", err)
	}
	at := int64(0)
	for size := int64(is.Bavail) * is.Bsize; size >= is.Bsize; {
		if unix.Fallocate(int(f.Fd()), 0, at, size) == nil {
			at += size
		} else {
			size /= 2
		}
	}
	return sync.OnceFunc(func() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // or it was wiped
			d.t.Errorf("empty the disk: %v", err)
		}
	})
}

// wipe removes everything on the disk.
func (d *disk) wipe() {
	for _, path := range d.content() {
		if err := os.RemoveAll(path); err != nil {
			d.t.Errorf("wipe the disk: %v", err)
		}
	}
}

func (d *disk) content() []string {
	paths, _ := filepath.Glob(filepath.Join(d.dir, "*"))
	return paths
}
