package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nonroot is the user, the group and the fsGroup of the image and of deploy/.
const nonroot = 65532

// A container is what to tell a container engine: the unpacked image, the mounts, and what to run.
// Its root is read-only, it has no capabilities and can get none, and what it runs is
// process 1. It has the network of this machine.
type container struct {
	Root   string
	Mounts []mount
	Args   []string
	Env    []string
	Own    bool // of a user namespace, in which this user is nonroot
}

// A mount is a folder or a file of this machine at a path of the container.
type mount struct {
	From, To string
	ReadOnly bool
}

// at returns what the container has mounted at a path.
func (c container) at(path string) string {
	return c.Mounts[slices.IndexFunc(c.Mounts, func(m mount) bool { return m.To == path })].From
}

const roleContainer = "container"

// command returns a command that becomes the container. More arguments can be added to it. A
// container without arguments only shows that it can be made.
func (c container) command(t *testing.T) *exec.Cmd {
	t.Helper()
	spec, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, roleContainer, string(spec))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if c.Own {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nonroot, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nonroot, HostID: os.Getgid(), Size: 1}}
		// It mounts, and then it gives all of that up.
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	}
	return cmd
}

// eachWay runs a test with the ways of making a container that this machine permits: as an ordinary
// user, in a user namespace, and as root. One of them has to be permitted.
func eachWay(t *testing.T, test func(t *testing.T, own bool)) {
	for name, own := range map[string]bool{"rootless": true, "root": false} {
		t.Run(name, func(t *testing.T) {
			if !own && os.Getuid() != 0 {
				t.Skip("this user is not root")
			}
			nothing := container{Root: t.TempDir(), Own: own}
			if out, err := nothing.command(t).CombinedOutput(); err != nil {
				t.Skipf("this machine permits no such container: %v\n%s", err, out)
			}
			t.Parallel()
			test(t, own)
		})
	}
}

// beContainer makes this process the container, and never returns.
func beContainer(spec string, args []string) {
	runtime.LockOSThread() // capabilities belong to a thread
	var c container
	err := json.Unmarshal([]byte(spec), &c)
	if err == nil {
		err = c.mountAll()
	}
	if err == nil {
		err = c.dropPrivileges()
	}
	args = append(c.Args, args...)
	if err == nil && len(args) == 0 {
		os.Exit(0)
	}
	if err == nil {
		err = unix.Exec(args[0], args, c.Env)
	}
	fmt.Fprintln(os.Stderr, "container:", err)
	os.Exit(125)
}

func (c container) mountAll() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := bind(c.Root, c.Root, false); err != nil {
		return err
	}
	proc, dev := filepath.Join(c.Root, "proc"), filepath.Join(c.Root, "dev")
	for _, dir := range []string{proc, dev} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := mountDevices(dev); err != nil {
		return err
	}
	for _, m := range c.Mounts {
		to := filepath.Join(c.Root, m.To)
		if err := makeMountPoint(m.From, to); err != nil {
			return err
		}
		if err := bind(m.From, to, m.ReadOnly); err != nil {
			return err
		}
	}
	if err := unix.Chdir(c.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return readOnly("/")
}

// makeMountPoint makes to a folder if from is one, else a file.
func makeMountPoint(from, to string) error {
	info, err := os.Stat(from)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return os.MkdirAll(to, 0o755)
	}
	file, err := os.OpenFile(to, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

func mountDevices(dev string) error {
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		to := filepath.Join(dev, name)
		if err := os.WriteFile(to, nil, 0o666); err != nil {
			return err
		}
		if err := bind("/dev/"+name, to, false); err != nil {
			return err
		}
	}
	return os.Symlink("/proc/self/fd", filepath.Join(dev, "fd"))
}

func bind(from, to string, isReadOnly bool) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	if isReadOnly {
		return readOnly(to)
	}
	return nil
}

// readOnly makes a mount read-only. It keeps the mount's other restrictions, which a user namespace
// may not lift.
func readOnly(path string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return err
	}
	kept := uintptr(stat.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// dropPrivileges does what allowPrivilegeEscalation: false, runAsUser and drop: [ALL] mean.
func (c container) dropPrivileges() error {
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // there are no more
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	if !c.Own {
		for _, become := range []func() error{
			func() error { return syscall.Setgroups([]int{nonroot}) },
			func() error { return syscall.Setgid(nonroot) },
			func() error { return syscall.Setuid(nonroot) },
		} {
			if err := become(); err != nil {
				return fmt.Errorf("become user %d: %w", nonroot, err)
			}
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// volume makes a folder as the kubelet makes a volume with fsGroup: root's, for that group, which
// what is made inside inherits.
func volume(t *testing.T, own bool) string {
	t.Helper()
	dir := t.TempDir()
	if !own {
		if err := os.Chown(dir, 0, nonroot); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o770|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inside runs a command in a running container, as `kubectl exec` does.
func inside(t *testing.T, own bool, pid int, env []string, args ...string) (code int, output string) {
	t.Helper()
	enter := []string{"--target", strconv.Itoa(pid), "--mount", "--pid", "--root=/proc/" + strconv.Itoa(pid) + "/root"}
	if own {
		enter = append(enter, "--user")
	}
	enter = append(enter, "--setgid", strconv.Itoa(nonroot), "--setuid", strconv.Itoa(nonroot), "--")
	cmd := exec.Command("nsenter", append(enter, args...)...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
