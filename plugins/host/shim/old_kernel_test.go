//go:build linux

package shim

import (
	"io"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/plugins/host/confine"
)

// Where the kernel cannot close many descriptors at once, or not on execution (before Linux 5.11),
// or a container's seccomp profile hides that it can, the handler has no other descriptors than it
// was ordered either: the shim's connection to the daemon above all.
func TestNoCloseRange(t *testing.T) {
	for name, o := range map[string]Order{"unconfined": {}, "confined": {Confine: new(confine.Order)}} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			o.Path, o.Args = "/bin/sh", Texts([]string{"sh", "-c", "for fd in 3 4 5 6 7 8 9; do readlink /proc/$$/fd/$fd; done; exit 0"})
			p, err := startWithout(unix.SYS_CLOSE_RANGE, o, []*os.File{r, w, w})
			_ = w.Close()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			p.Wait()
			if len(got) > 0 || err != nil {
				t.Errorf("beside its standard streams the handler has %q, %v", got, err)
			}
		})
	}
}

// startWithout is Start on a kernel that does not have a system call.
func startWithout(call uint32, o Order, files []*os.File) (p *Process, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread, which alone goes without, ends with the goroutine
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the call's number
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
			return
		}
		p, err = Start(o, files, nil, 10*time.Second)
	}()
	<-done
	return p, err
}
