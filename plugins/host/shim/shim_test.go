//go:build linux

package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/informd/informd/internal/procfs"
)

func TestMain(m *testing.M) {
	TakeOver()
	goleak.VerifyTestMain(m)
}

// A program that does not install the shim gets an error. Executed again, it would run as usual.
func TestNotInstalled(t *testing.T) {
	installed = false
	defer func() { installed = true }()
	if _, err := Start(Order{Path: "/bin/true"}, nil, nil, time.Minute); !errors.Is(err, errNotInstalled) {
		t.Errorf("got %v", err)
	}
}

// Without the name, the variable alone makes no shim of a program, nor does the name without a
// sensible variable.
func TestNoShim(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"test", "supervise:3"}, {title + "x", ""}, {title + "x", "supervise"}, {title + "x", "supervise:x"}, {title + "x", "supervise:2"},
	} {
		cmd := &exec.Cmd{Path: os.Args[0], Args: []string{c.name, "-test.list=TestNoShim"}, Env: []string{variable + "=" + c.value, "GORACE=atexit_sleep_ms=0"}}
		if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "TestNoShim") {
			t.Errorf("%s, %s: got %q, %v", c.name, c.value, out, err)
		}
	}
}

// A shim that gets no order, or nonsense, ends and starts nothing.
func TestNoOrder(t *testing.T) {
	for name, order := range map[string]string{
		"none":      "",
		"cut off":   "\x00\x00\x00\x10{}",
		"too large": "\xff\xff\xff\xff",
		"no JSON":   "\x00\x00\x00\x02xx",
		"no base64": "\x00\x00\x00\x0e" + `{"Path":"/bin"`,
	} {
		t.Run(name, func(t *testing.T) {
			near, far, err := pair()
			if err != nil {
				t.Fatal(err)
			}
			_, argv, env := self("x", roleSupervise, 3)
			cmd := &exec.Cmd{Path: os.Args[0], Args: argv, Env: env, ExtraFiles: []*os.File{far}}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = far.Close()
			if _, err := io.WriteString(near, order); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Shutdown(int(near.Fd()), syscall.SHUT_WR); err != nil {
				t.Fatal(err)
			}
			var r report
			if err := receive(near, maxFrame, &r); err != nil || r.Error == nil || r.Error.Step != stepOrder {
				t.Errorf("got %+v, %v", r, err)
			}
			_ = near.Close()
			_ = cmd.Wait()
		})
	}
}

// A signal reaches the handler's group, and its status comes back.
func TestStart(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	files := []*os.File{null, null, null}
	p, err := Start(Order{Name: "x", Path: "/bin/sleep", Args: Texts([]string{"sleep", "1000"})}, files, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGTERM)
	if end := p.Wait(); !end.Known || end.Status.Signal() != syscall.SIGTERM || end.Left != 0 {
		t.Errorf("got %+v", end)
	}
	p.Signal(syscall.SIGTERM) // whose number it was, it is not any more

	_, err = Start(Order{Path: "/bin/sleep", Dir: "/no/such"}, files, nil, time.Minute)
	if step, ok := errors.AsType[*StepError](err); !ok || step.Confining || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v", err)
	}
	_, err = Start(Order{Path: "/bin/sleep", Env: []Text{Text(strings.Repeat("x", maxOrder))}}, files, nil, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "bytes are too many for it") {
		t.Errorf("got %v", err)
	}
}

// A program that is not executed within the limit is given up.
func TestStartLimit(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	_, err = Start(Order{Path: "/bin/sleep", Args: Texts([]string{"sleep", "1000"})}, []*os.File{null, null, null}, nil, time.Nanosecond)
	if err == nil {
		t.Error("no error")
	}
	if found := descendants(os.Getpid()); len(found) > 0 {
		t.Errorf("left: %v", found)
	}
}

// A shim that is stopped is woken to end its handler.
func TestStoppedShim(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	p, err := Start(Order{Path: "/bin/sleep", Args: Texts([]string{"sleep", "1000"})}, []*os.File{null, null, null}, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.shim.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGKILL)
	if end := p.Wait(); !end.Known || end.Status.Signal() != syscall.SIGKILL {
		t.Errorf("got %+v", end)
	}
}

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	sent := Order{Name: "x", Path: "\xff\x00", Args: []Text{"", "\n"}}
	if err := send(&buf, sent); err != nil {
		t.Fatal(err)
	}
	var got Order
	if err := receive(&buf, maxOrder, &got); err != nil || got.Path != sent.Path || len(got.Args) != 2 || got.Args[1] != "\n" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := receive(strings.NewReader("\x00\x00\x10\x01"), maxFrame, &got); err == nil || err == io.ErrUnexpectedEOF {
		t.Errorf("got %v", err)
	}
	if f := failure(stepExec, errors.New(strings.Repeat("\x01", 1<<20))); len(f.Text) > maxText {
		t.Errorf("an error of %d bytes", len(f.Text))
	}
}

// A process that has got the number of an earlier one is left alone.
func TestSignalOther(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	now, err := procfs.Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p, earlier := proc{now}, proc{now}
	earlier.Born = 1
	earlier.signal(syscall.SIGTERM)
	p.signal(syscall.SIGUSR1)
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGUSR1 {
		t.Errorf("it got %v", status.Signal())
	}
}

// Whatever is in a directory, it can be removed, by a user without privileges.
func TestRemoveAll(t *testing.T) {
	for name, fill := range map[string]func(dir string) error{
		"nothing":    func(string) error { return nil },
		"no dir":     os.Remove,
		"closed":     func(dir string) error { return os.Chmod(dir, 0) },
		"files":      func(dir string) error { return touch(dir, 3*batch) },
		"read only":  func(dir string) error { return nest(dir, 3, 0o500) },
		"unreadable": func(dir string) error { return nest(dir, 3, 0) },
		"deep":       func(dir string) error { return nest(dir, 3000, 0o700) },
		"wide": func(dir string) error {
			for i := range batch + 10 {
				if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700); err != nil {
					return err
				}
			}
			return touch(filepath.Join(dir, "7"), batch+1)
		},
		"links": func(dir string) error {
			return errors.Join(os.Symlink("/etc", filepath.Join(dir, "a")), os.Symlink("..", filepath.Join(dir, "b")), os.Symlink("nowhere", filepath.Join(dir, "c")))
		},
		"pipe": func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "p"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			outer, err := os.MkdirTemp("/tmp", "shim")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(outer) }()
			if err := os.Chmod(outer, 0o777); err != nil {
				t.Fatal(err)
			}
			asNobody(t, func() {
				dir := filepath.Join(outer, "dir")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Error(err)
					return
				}
				if err := fill(dir); err != nil {
					t.Error(err)
				}
				if err := RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			if left, err := os.ReadDir(outer); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// A file that cannot be removed keeps no other file, and the attempt ends.
func TestRemoveAllFails(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make what another user cannot remove")
	}
	outer, err := os.MkdirTemp("/tmp", "shim")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(outer) }()
	if err := os.Chmod(outer, 0o777); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(outer, "dir")
	asNobody(t, func() {
		if err := os.MkdirAll(filepath.Join(dir, "a"), 0o700); err != nil {
			t.Error(err)
		}
	})
	if err := os.MkdirAll(filepath.Join(dir, "a", "roots", "own"), 0o700); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		if err := touch(filepath.Join(dir, "a"), 10); err != nil {
			t.Error(err)
		}
		if err := RemoveAll(dir); !errors.Is(err, os.ErrPermission) {
			t.Errorf("got %v", err)
		}
	})
	if left, err := os.ReadDir(filepath.Join(dir, "a")); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// asNobody runs f as another user, if it is root who runs the test: modes mean nothing to root.
// Only f's thread, which ends with it, changes.
func asNobody(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 {
			runtime.LockOSThread() // and never unlocked
			if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
				t.Error(errno)
				return
			}
		}
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it takes for ever")
	}
}

func touch(dir string, n int) error {
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, "f"+strconv.Itoa(i)), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// nest makes directories in each other, each beside a file, and gives them a mode.
func nest(dir string, depth int, mode uint32) error {
	fds := []int{}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for ; err == nil && depth > 0; depth-- {
		err = errors.Join(unix.Mknodat(fd, "file", unix.S_IFREG|0o600, 0), unix.Mkdirat(fd, "d", 0o700))
		fds = append(fds, fd)
		if err == nil {
			fd, err = unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
	}
	for _, fd := range fds {
		err = errors.Join(err, unix.Fchmod(fd, mode), unix.Close(fd))
	}
	return errors.Join(err, unix.Close(fd))
}

// leaderless is a program whose first thread ends, while another goes on and writes its process's
// number to a file again and again; with "flees" it does so in a session of its own, as an orphan,
// and else it leaves an orphan that ends.
const leaderless = `#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char *out;
static void *work(void *nothing) {
	for (;;) {
		FILE *f = fopen(out, "w");
		if (f) { fprintf(f, "%d\n", getpid()); fclose(f); }
		usleep(20000);
	}
	return nothing;
}
static void lead(void) { pthread_t t; pthread_create(&t, 0, work, 0); syscall(SYS_exit, 0); }
int main(int argc, char **argv) {
	out = argv[2];
	if (!strcmp(argv[1], "flees")) {
		if (!fork()) { setsid(); if (!fork()) lead(); _exit(0); }
		sleep(1000);
	}
	if (!fork()) { if (!fork()) usleep(200000); _exit(0); }
	lead();
}
`

// A process lives as long as any of its threads, even if the first one has ended.
func TestLeaderless(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatal("there is no gcc to build a program in C with, which ends its first thread as no program in Go can")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "leaderless")
	gcc := exec.Command("gcc", "-pthread", "-x", "c", "-o", program, "-")
	gcc.Stdin = strings.NewReader(leaderless)
	if b, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	for _, mode := range []string{"flees", "stays"} {
		t.Run(mode, func(t *testing.T) {
			out := filepath.Join(dir, mode)
			p, err := Start(Order{Name: "x", Path: Text(program), Args: Texts([]string{program, mode, out})}, []*os.File{null, null, null}, nil, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			pid := 0
			working := func() bool {
				_ = os.Remove(out)
				for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
					if b, err := os.ReadFile(out); err == nil && bytes.HasSuffix(b, []byte("\n")) {
						pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
						return err == nil
					}
				}
				return false
			}
			if !working() {
				t.Error("it does not work")
			}
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			if mode == "stays" { // its orphan ends, which has the shim look around
				time.Sleep(400 * time.Millisecond)
				if !working() {
					t.Error("it was ended when its orphan was")
				}
			}
			p.Signal(syscall.SIGKILL)
			if end := p.Wait(); !end.Known || end.Left > 0 {
				t.Errorf("%+v", end)
			}
			if err := syscall.Kill(pid, 0); err == nil {
				t.Error("it goes on")
			}
		})
	}
}

// If a handler replaces its directory by a link, the link is removed, but not its target.
func TestRemoveAllOfLink(t *testing.T) {
	other := t.TempDir()
	kept := filepath.Join(other, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(other)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(link); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link is there")
	}
	if after, err := os.Stat(other); err != nil || after.Mode() != before.Mode() {
		t.Errorf("%v, %v", after, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// A fork bomb of its own user, which is as many processes as its user may have, all running and
// trying for more, each in a session of its own, is ended all the same.
func TestBomb(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can have a process run as another user, whose processes are bounded")
	}
	const user = 61_298
	t.Cleanup(func() { // whatever the shim has left
		cmd := exec.Command("/usr/bin/perl", "-e", "for (1..50) { kill 'KILL', -1 or last }")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		_ = cmd.Run()
	})
	p := perl(t, fmt.Sprintf("my $l = pack('QQ', 60, 60); syscall(160, 6, $l) == 0 or die; setgid(%[1]d); setuid(%[1]d);"+
		"while (1) { my $p = fork; setsid if defined $p && $p == 0 }", user)) // at most 60
	count := func() int {
		n := 0
		names, _ := filepath.Glob("/proc/[0-9]*")
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.Sys().(*syscall.Stat_t).Uid == user {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); count() < 50 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := count(); n < 50 {
		t.Fatalf("the bomb has %d processes only", n)
	}
	p.Signal(syscall.SIGKILL)
	if end := p.Wait(); !end.Known || end.Left > 0 {
		t.Errorf("%+v", end)
	}
	if n := count(); n > 0 {
		t.Errorf("%d processes go on", n)
	}
}

// A handler that asks to be traced by its parent, and is stopped then by a signal, has not ended.
func TestTraced(t *testing.T) {
	p := perl(t, "syscall(101, 0, 0, 0, 0); kill 'USR1', $$; sleep 1000")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if now, err := procfs.Read(p.PID()); err == nil && now.State == 't' {
			break
		} else if time.Now().After(deadline) {
			p.Signal(syscall.SIGKILL)
			t.Fatalf("it is not stopped: %+v; %+v", now, p.Wait())
		}
	}
	p.Signal(syscall.SIGKILL)
	if end := p.Wait(); !end.Known || !end.Status.Signaled() || end.Status.Signal() != syscall.SIGKILL || end.Left > 0 {
		t.Errorf("%+v", end)
	}
}

// perl starts a Perl program that makes system calls which a Go program cannot make.
func perl(t *testing.T, code string, args ...string) *Process {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the test knows the system calls of amd64 only")
	}
	if _, err := os.Stat("/usr/bin/perl"); err != nil {
		if os.Getenv("INFORMD_SKIP_NOTHING") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no Perl: ", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	p, err := Start(Order{Name: "perl", Path: "/usr/bin/perl", Args: Texts(append([]string{"perl", "-MPOSIX", "-e", code}, args...))},
		[]*os.File{null, null, null}, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What /proc does not show, mounted as it is on hardened systems, is ended all the same: here a
// process that fled from the handler's group, is orphaned, and lets itself be traced by nobody.
func TestHidden(t *testing.T) {
	const user = 61_297
	if os.Getenv("HIDDEN") == "" {
		if os.Geteuid() != 0 {
			t.Skip("only root can mount /proc")
		}
		dir, err := os.MkdirTemp("/tmp", "hidden")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		program := filepath.Join(dir, "test") // where this one is, others may not go
		if b, err := os.ReadFile("/proc/self/exe"); err != nil || os.WriteFile(program, b, 0o755) != nil || os.Chmod(dir, 0o777) != nil {
			t.Fatal("cannot copy this program: ", err)
		}
		cmd := exec.Command("/bin/sh", "-ec", fmt.Sprintf(`mount -t proc -o hidepid=2 proc /proc
			exec setpriv --reuid %[1]d --regid %[1]d --clear-groups "$0" -test.v -test.run "^TestHidden$"`, user), program)
		cmd.Dir = dir
		cmd.Env = []string{"HIDDEN=" + dir, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + dir, "GORACE=atexit_sleep_ms=0"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // Go makes its mounts private
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestHidden")) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	file := filepath.Join(os.Getenv("HIDDEN"), "pid")
	p := perl(t, `if (!fork) { setsid; if (!fork) { syscall(157, 4, 0, 0, 0, 0); open F, ">", $ARGV[0]; print F "$$\n"; close F; sleep 1000 } exit } sleep 1000`, file)
	pid := 0
	for deadline := time.Now().Add(time.Minute); pid == 0; time.Sleep(10 * time.Millisecond) {
		if b, err := os.ReadFile(file); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		} else if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if _, err := procfs.Read(pid); err == nil {
		t.Fatal("it is not hidden")
	}
	p.Signal(syscall.SIGKILL)
	if end := p.Wait(); !end.Known || end.Left > 0 {
		t.Errorf("%+v", end)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("it goes on")
	}
}
