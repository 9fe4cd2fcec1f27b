//go:build linux

package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// target is the payload of an event: where a probe looks.
type target struct {
	PID     int     // of the daemon
	Address uintptr // in its memory
	Size    int
	Path    string
	Port    int
}

// probe is a handler that tries to reach what is not its own. It answers with an action whose
// object is what it found, or with a retry that says what stopped it.
func probe(_ context.Context, ev handler.Event) (handler.Answer, error) {
	var to target
	if err := json.Unmarshal(ev.Payload, &to); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	look := probes[ev.Name]
	if look == nil {
		return handler.Answer{}, handler.Reject(fmt.Errorf("no such probe"))
	}
	found, err := look(to)
	if err != nil {
		return handler.Answer{}, err
	}
	object, err := json.Marshal(found)
	return handler.Answer{Actions: []handler.Action{{Verb: handler.ActionApply, Object: object}}}, err
}

var probes = map[string]func(target) (string, error){
	"memory": func(to target) (string, error) {
		f, err := os.Open(fmt.Sprintf("/proc/%d/mem", to.PID))
		if err != nil {
			return "", err
		}
		buf := make([]byte, to.Size)
		_, err = f.ReadAt(buf, int64(to.Address))
		return string(buf), err
	},
	"memory by system call": func(to target) (string, error) {
		buf := make([]byte, to.Size)
		local := unix.Iovec{Base: &buf[0], Len: uint64(len(buf))}
		remote := unix.RemoteIovec{Base: to.Address, Len: to.Size}
		_, err := unix.ProcessVMReadv(to.PID, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
		return string(buf), err
	},
	"environment": func(to target) (string, error) { return contents(fmt.Sprintf("/proc/%d/environ", to.PID)) },
	"command line": func(to target) (string, error) {
		return contents(fmt.Sprintf("/proc/%d/cmdline", to.PID))
	},
	"open file": func(to target) (string, error) { return contents(fmt.Sprintf("/proc/%d/fd/%s", to.PID, to.Path)) },
	"file":      func(to target) (string, error) { return contents(to.Path) },
	"folder": func(to target) (string, error) {
		entries, err := os.ReadDir(to.Path)
		return fmt.Sprint(entries), err
	},
	"writing": func(to target) (string, error) {
		f, err := os.OpenFile(to.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return "", err
		}
		_ = f.Close()
		return "written", os.Remove(to.Path)
	},
	"socket":        func(to target) (string, error) { return connected("unix", to.Path) },
	"network":       func(to target) (string, error) { return connected("tcp", fmt.Sprintf("127.0.0.1:%d", to.Port)) },
	"its own files": func(target) (string, error) { return "", ownFiles() },
	"signal":        func(to target) (string, error) { return "sent", syscall.Kill(to.PID, 0) },
	"trace": func(to target) (string, error) { // PTRACE_SEIZE stops nothing; the end of the thread undoes it
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(to.PID), 0, 0, 0, 0)
			if errno != 0 {
				done <- errno
				return
			}
			done <- nil
		}()
		return "attached", <-done
	},
	"privileges": func(target) (string, error) {
		v, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0)
		if errno != 0 {
			return "", errno
		}
		if v == 1 {
			return "", fmt.Errorf("no new privileges")
		}
		return "may gain privileges", nil
	},
	"inherited": func(target) (string, error) {
		if len(inherited) == 0 {
			return "", fmt.Errorf("nothing")
		}
		return strings.Join(inherited, ", "), nil
	},
}

// inherited lists the descriptors that the process inherited beside its standard streams. A probe
// records them before it opens anything.
var inherited []string

func noteInherited() {
	for fd := 3; fd < 256; fd++ {
		var st syscall.Stat_t
		flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno != 0 || flags&syscall.FD_CLOEXEC != 0 || syscall.Fstat(fd, &st) != nil { // what the runtime opens closes on exec
			continue
		}
		to, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		inherited = append(inherited, fmt.Sprintf("%d: %o %s", fd, st.Mode&syscall.S_IFMT, to))
	}
}

func contents(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 1<<16))
	return string(b), err
}

func connected(network, address string) (string, error) {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return "", err
	}
	return "connected", c.Close()
}

// ownFiles checks that a handler can use what every handler may use.
func ownFiles() error {
	for _, dir := range []string{os.Getenv("TMPDIR"), os.TempDir()} {
		f, err := os.CreateTemp(dir, "own")
		if err != nil {
			return fmt.Errorf("in %q: %w", dir, err)
		}
		if err := os.Rename(f.Name(), f.Name()+"2"); err != nil {
			return err
		}
		_ = f.Close()
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if os.Getenv(name) == "" {
			return fmt.Errorf("no %s", name)
		}
	}
	return fmt.Errorf("all well")
}

func init() {
	addModes(map[string]func(){"probe": func() { noteInherited(); serve.Main(handler.Func(probe)) }})
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
