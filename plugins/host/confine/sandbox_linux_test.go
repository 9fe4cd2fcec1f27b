package confine

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// folder is a temporary one that every user may go through.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ct")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// prepare confines a process that runs the test binary, or skips where this machine cannot.
func prepare(t *testing.T, s Spec, own Own) *Confinement {
	t.Helper()
	own.Read = append(own.Read, program)
	m := thisMachine()
	if s.User == "" {
		m.uid = 1 // root gets the same enforcement, but would be refused a network
	}
	c, err := m.prepare(s, t.Name(), own)
	if err != nil {
		if (s.User != "" && os.Geteuid() != 0) || s.Sandbox && unsupported(s) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Kill(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// unsupported reports whether this kernel lacks the landlock that a sandbox needs.
func unsupported(s Spec) bool {
	abi, err := landlockABI()
	return err != nil || abi < abiTCP || s.User == "" && abi < abiScopes
}

// command runs a program in c.
func command(t *testing.T, c *Confinement, env []string, args ...string) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(stage{c.Order(), args, append(env, "GORACE=atexit_sleep_ms=0")})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{stageVar + "=" + string(b), "GORACE=atexit_sleep_ms=0"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if f := c.Cgroup(); f != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(f.Fd())
	}
	return cmd
}

// output returns the output of a program, which must exit with status 0.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	return string(out)
}

// outside sets the scene: what a sandboxed process must not reach, and what it may.
func outside(t *testing.T) scene {
	t.Helper()
	s := scene{Own: folder(t), Outside: folder(t), Given: folder(t), Parent: os.Getpid(), Threads: 4}
	s.Written = filepath.Join(folder(t), "file")
	s.Abstract = "confine-" + filepath.Base(s.Own)
	for _, path := range []string{s.Outside + "/file", s.Outside + "/moved", s.Given + "/file", s.Written} {
		if err := errors.Join(os.WriteFile(path, []byte("contents"), 0o600), os.Chmod(path, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := os.ReadFile("/bin/true")
	if err == nil {
		err = os.WriteFile(s.Outside+"/true", binary, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	listen := func(network, address string) int {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		tcp, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return 0
		}
		return tcp.Port
	}
	s.Allowed, s.Denied = listen("tcp", "127.0.0.1:0"), listen("tcp", "127.0.0.1:0")
	listen("unix", s.Outside+"/socket")
	listen("unix", "@"+s.Abstract)
	if err := os.Chmod(s.Outside+"/socket", 0o777); err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	s.UDP = udp.LocalAddr().(*net.UDPAddr).Port
	other := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	s.Other = other.Process.Pid
	s.Segment = ipc(t, unix.SYS_SHMGET, 4096, unix.SYS_SHMCTL)
	s.Set = ipc(t, unix.SYS_SEMGET, 1, unix.SYS_SEMCTL)
	s.Queue = ipc(t, unix.SYS_MSGGET, 0, unix.SYS_MSGCTL)
	return s
}

// ipc makes something of System V's that all users may use; -1 where the kernel has no such thing.
func ipc(t *testing.T, get, size, control uintptr) int {
	t.Helper()
	const mode = 0o666
	args := []uintptr{unix.IPC_PRIVATE, size, unix.IPC_CREAT | mode}
	if get == unix.SYS_MSGGET {
		args = []uintptr{unix.IPC_PRIVATE, unix.IPC_CREAT | mode, 0}
	}
	id, _, errno := unix.Syscall(get, args[0], args[1], args[2])
	if errno != 0 {
		return -1
	}
	t.Cleanup(func() {
		args := []uintptr{id, ipcRemove, 0}
		if control == unix.SYS_SEMCTL {
			args = []uintptr{id, 0, ipcRemove}
		}
		if _, _, errno := unix.Syscall6(control, args[0], args[1], args[2], 0, 0, 0); errno != 0 {
			t.Error(errno)
		}
	})
	return int(id)
}

// explore runs all probes.
func explore(t *testing.T, c *Confinement, s scene) []map[string]string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]string
	out := output(t, command(t, c, []string{probeVar + "=" + string(b), "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, program))
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != s.Threads {
		t.Fatalf("%v: %s", err, out)
	}
	return all
}

// refused reports whether a probe failed because the kernel refused it, or a program that it ran.
// Where /proc is mounted with hidepid=2, the kernel refuses by showing no such file. Any other
// failure is a broken probe.
func refused(result string) bool {
	for _, e := range []unix.Errno{
		unix.EACCES, unix.EPERM, unix.ENOSYS, unix.EXDEV, unix.EOPNOTSUPP, unix.ENOENT,
	} {
		if strings.Contains(result, e.Error()) {
			return true
		}
	}
	return result == noCapability || strings.HasPrefix(result, "exit status")
}

// TestSandbox tries everything that a sandbox promises to refuse, and what it promises to leave, in
// each kind of sandbox and in several threads; and unconfined, where all of it works.
func TestSandbox(t *testing.T) {
	free := outside(t)
	free.Threads = 1
	unconfined := explore(t, nil, free)[0]
	impossible := make(map[string]bool)
	for _, p := range probes {
		if r := unconfined[p.name]; r != "ok" {
			if !p.root {
				t.Errorf("unconfined, %s: %s", p.name, r)
			}
			t.Logf("not even unconfined, so nothing can be told: %s: %s", p.name, r)
			impossible[p.name] = true
		}
	}

	for _, test := range []struct {
		name, mark string
		network    func(scene) Network
		user       string
	}{
		{"no network", none, func(scene) Network { return Network{} }, ""},
		{"a port", ports, func(s scene) Network { return Network{Ports: []uint16{uint16(s.Allowed)}} }, ""},
		{"a port and names", names, func(s scene) Network { return Network{Ports: []uint16{uint16(s.Allowed), 53}} }, ""},
		{"all of the network", open, func(scene) Network { return Network{All: true} }, ""},
		{"no network, another user", none, func(scene) Network { return Network{} }, "64998:64998"},
		{"a port and names, another user", names, func(s scene) Network { return Network{Ports: []uint16{uint16(s.Allowed), 53}} }, "64998:64998"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := outside(t)
			c := prepare(t, Spec{Sandbox: true, Read: []string{s.Given}, Write: []string{s.Written}, Network: test.network(s), User: test.user},
				Own{Write: []string{s.Own}})
			for i, results := range explore(t, c, s) {
				for _, p := range probes {
					r := results[p.name]
					switch works := strings.Contains(p.in, test.mark); {
					case impossible[p.name]:
					case works && r != "ok":
						t.Errorf("thread %d: %s: %s", i, p.name, r)
					case !works && !refused(r):
						t.Errorf("thread %d: %s: want it refused: %s", i, p.name, r)
					}
				}
			}
		})
	}
}
