package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// scene describes the surroundings of the probes.
type scene struct {
	Own, Outside         string // folders; their file modes let all users write to both
	Given                string // a folder that may be read
	Written              string // a file that may be written
	Allowed, Denied, UDP int    // ports on which somebody listens
	Abstract             string // abstract socket on which somebody listens
	Parent, Other        int    // processes outside
	Queue, Set, Segment  int    // of System V, that others made; -1: none
	Threads              int    // in which to run each probe; from the second on at once
	Suffix               string // so that probes in several threads do not collide
}

// probe tries something, and succeeds or says why not.
type probe struct {
	name string
	in   string // in which sandboxes it succeeds
	root bool   // or an unusual kernel: a probe that fails unconfined, too, shows nothing
	try  func(scene) error
}

const (
	none  = "none "  // no network
	ports = "ports " // the Allowed port
	names = "names " // and 53
	open  = "open "  // the whole network
	every = none + ports + names + open
)

var probes = []probe{
	// What every program needs.
	{"run a program of the system", every, false, func(scene) error { return exec.Command("/bin/true").Run() }},
	{"run a shell with a redirection", every, false, func(scene) error { return exec.Command("/bin/sh", "-c", "echo x >/dev/null").Run() }},
	{"read a library", every, false, func(scene) error { _, err := os.ReadDir("/usr/lib"); return err }},
	{"read /etc/passwd", every, false, func(scene) error { return read("/etc/passwd") }},
	{"read random numbers", every, false, func(scene) error {
		f, err := os.Open("/dev/urandom")
		if err == nil {
			defer f.Close()
			_, err = f.Read(make([]byte, 8))
		}
		return err
	}},
	{"read what was given", every, false, func(s scene) error { return read(filepath.Join(s.Given, "file")) }},
	{"write what was given", every, false, func(s scene) error { return os.WriteFile(s.Written, []byte("x"), 0) }},
	{"write, link, rename and remove in its own folder", every, false, func(s scene) error {
		d := filepath.Join(s.Own, "d"+s.Suffix)
		a, b := filepath.Join(d, "a"), filepath.Join(s.Own, "b"+s.Suffix)
		return errors.Join(os.Mkdir(d, 0o700), os.WriteFile(a, []byte("xy"), 0o600), os.Truncate(a, 1), os.Symlink("a", d+"/s"),
			os.Link(a, d+"/l"), unix.Mkfifo(d+"/f", 0o600), os.Rename(a, b), read(b), os.Remove(b), os.RemoveAll(d))
	}},
	{"serve a socket in its own folder", every, false, func(s scene) error {
		l, err := net.Listen("unix", filepath.Join(s.Own, "s"+s.Suffix))
		if err == nil {
			err = l.Close()
		}
		return err
	}},
	{"signal a child", every, false, func(scene) error {
		cmd := exec.Command("/bin/sleep", "60")
		if err := cmd.Start(); err != nil {
			return err
		}
		err := cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}},
	{"signal itself", every, false, func(scene) error { return syscall.Kill(os.Getpid(), 0) }},

	// Files.
	{"read outside", "", false, func(s scene) error { return read(filepath.Join(s.Outside, "file")) }},
	{"read /etc/shadow", "", true, func(scene) error { return read("/etc/shadow") }},
	{"list /root", "", true, func(scene) error { _, err := os.ReadDir("/root"); return err }},
	{"list /etc", "", false, func(scene) error { _, err := os.ReadDir("/etc"); return err }},
	{"list /tmp", "", false, func(scene) error { _, err := os.ReadDir("/tmp"); return err }},
	{"list /proc", "", false, func(scene) error { _, err := os.ReadDir("/proc"); return err }},
	{"read its own /proc", "", false, func(scene) error { return read("/proc/self/status") }},
	{"read the parent's environment", "", true, func(s scene) error { return read(fmt.Sprintf("/proc/%d/environ", s.Parent)) }},
	{"list outside", "", false, func(s scene) error { _, err := os.ReadDir(s.Outside); return err }},
	{"run a program outside", "", false, func(s scene) error { return exec.Command(filepath.Join(s.Outside, "true")).Run() }},
	{"write outside", "", false, func(s scene) error {
		return os.WriteFile(filepath.Join(s.Outside, "new"+s.Suffix), nil, 0o600)
	}},
	{"write what may be read", "", false, func(s scene) error {
		f, err := os.OpenFile(filepath.Join(s.Given, "file"), os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		return err
	}},
	{"truncate outside", "", false, func(s scene) error { return os.Truncate(filepath.Join(s.Outside, "file"), 3) }},
	{"make a folder outside", "", false, func(s scene) error { return os.Mkdir(filepath.Join(s.Outside, "dir"+s.Suffix), 0o700) }},
	{"make a link outside", "", false, func(s scene) error { return os.Symlink("x", filepath.Join(s.Outside, "link"+s.Suffix)) }},
	{"move a file from outside into its own folder", "", false, func(s scene) error {
		from, to := filepath.Join(s.Outside, "moved"), filepath.Join(s.Own, "moved"+s.Suffix)
		if err := os.Rename(from, to); err != nil {
			return err
		}
		return os.Rename(to, from)
	}},
	{"serve a socket outside", "", false, func(s scene) error {
		l, err := net.Listen("unix", filepath.Join(s.Outside, "s"+s.Suffix))
		if err == nil {
			err = l.Close()
		}
		return err
	}},
	{"watch its own folder", "", false, func(s scene) error { return watch(s.Own) }},
	{"watch outside", "", false, func(s scene) error { return watch(s.Outside) }},
	{"watch a file system", "", true, func(scene) error {
		fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID|unix.FAN_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
	{"change a mode", "", false, func(s scene) error { return onOwnFile(s, func(path string) error { return os.Chmod(path, 0o644) }) }},
	{"change a mode by descriptor", "", false, func(s scene) error {
		return onOwnFile(s, func(path string) error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Chmod(0o644)
		})
	}},
	{"change an owner", "", false, func(s scene) error { return onOwnFile(s, func(path string) error { return os.Chown(path, -1, -1) }) }},
	{"change times", "", false, func(s scene) error {
		return onOwnFile(s, func(path string) error { return os.Chtimes(path, time.Now(), time.Now()) })
	}},
	{"change attributes by descriptor", "", true, func(s scene) error {
		return onOwnFile(s, func(path string) error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
			if err != nil {
				return fmt.Errorf("not refused but broken: %w", err)
			}
			const noDump = 0x40 // FS_NODUMP_FL
			return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|noDump))
		})
	}},

	// Network.
	{"connect to an allowed port", ports + names + open, false, func(s scene) error { return dial("tcp", s.Allowed) }},
	{"connect to another port", open, false, func(s scene) error { return dial("tcp", s.Denied) }},
	{"connect to another port by fast open", open, false, fastOpen},
	{"connect to another port by MPTCP", open, true, func(s scene) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, func(fd int) error {
			return unix.Connect(fd, &unix.SockaddrInet4{Port: s.Denied, Addr: [4]byte{127, 0, 0, 1}})
		})
	}},
	{"send a datagram", names + open, false, func(s scene) error { return dial("udp", s.UDP) }},
	{"listen on a port", open, false, func(scene) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			err = l.Close()
		}
		return err
	}},
	{"connect to a socket outside", ports + names + open, false, func(s scene) error { return dialUnix(filepath.Join(s.Outside, "socket")) }},
	{"connect to an abstract socket", "", false, func(s scene) error { return dialUnix("@" + s.Abstract) }},
	{"make a socket for local datagrams", ports + names + open, false, func(scene) error { return socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0) }},
	{"make a netlink socket", open, false, func(scene) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, 0) }},
	{"make a raw socket", "", true, func(scene) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{"make a packet socket", "", true, func(scene) error { return socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0) }},
	{"make an SCTP socket", open, true, func(scene) error { return socket(unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP) }},

	// Privileges and other processes.
	{"have a capability", "", true, capability},
	{"mount", "", true, func(s scene) error {
		if err := unix.Mount("none", s.Own, "tmpfs", 0, ""); err != nil {
			return err
		}
		return unix.Unmount(s.Own, unix.MNT_DETACH)
	}},
	{"change the root", "", true, func(scene) error { return exec.Command("chroot", "/", "/bin/true").Run() }},
	{"make a device", "", true, func(s scene) error {
		path := filepath.Join(s.Own, "dev"+s.Suffix)
		return errors.Join(unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))), os.Remove(path))
	}},
	{"make a user namespace", "", true, func(scene) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return cmd.Run()
	}},
	{"make a ring", "", true, func(scene) error {
		var params [120]byte
		fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0)
		if errno != 0 {
			return errno
		}
		return unix.Close(int(fd))
	}},
	{"use a keyring", "", true, func(scene) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
		return err
	}},
	{"read the kernel's log", "", true, func(scene) error {
		_, err := unix.Klogctl(3 /* SYSLOG_ACTION_READ_ALL */, make([]byte, 100))
		return err
	}},
	{"share memory", "", true, func(scene) error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err == nil {
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
		return err
	}},
	{"look at others' shared memory", "", true, func(s scene) error { return ipcStat(unix.SYS_SHMCTL, s.Segment) }},
	{"look at others' semaphores", "", true, func(s scene) error { return ipcStat(unix.SYS_SEMCTL, s.Set) }},
	{"look at others' messages", "", true, func(s scene) error { return ipcStat(unix.SYS_MSGCTL, s.Queue) }},
	{"signal the parent", "", false, func(s scene) error { return syscall.Kill(s.Parent, 0) }},
	{"read the parent's memory", "", true, func(s scene) error {
		var here [8]byte
		local := []unix.Iovec{{Base: &here[0], Len: 8}}
		_, err := unix.ProcessVMReadv(s.Parent, local, []unix.RemoteIovec{{Base: 8, Len: 8}}, 0)
		if errors.Is(err, unix.EFAULT) { // it was let look, and there is nothing
			return nil
		}
		return err
	}},
	{"trace a process outside", "", true, func(s scene) error {
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(s.Other), 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}},
	{"see the parent's limits", "", true, func(s scene) error {
		var l unix.Rlimit
		return unix.Prlimit(s.Parent, unix.RLIMIT_NOFILE, nil, &l)
	}},
	{"set the parent's priority", "", true, func(s scene) error {
		n, err := unix.Getpriority(unix.PRIO_PROCESS, s.Parent)
		if err == nil {
			err = unix.Setpriority(unix.PRIO_PROCESS, s.Parent, 20-n) // the kernel's getpriority counts from 20 down
		}
		return err
	}},
}

func read(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func onOwnFile(s scene, do func(path string) error) error {
	path := filepath.Join(s.Own, "mine"+s.Suffix)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("not refused but broken: %w", err)
	}
	defer os.Remove(path)
	return do(path)
}

func dial(network string, port int) error {
	c, err := net.Dial(network, fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

func dialUnix(path string) error {
	c, err := net.Dial("unix", path)
	if err == nil {
		err = c.Close()
	}
	return err
}

func withSocket(family, kind, protocol int, do func(fd int) error) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

func socket(family, kind, protocol int) error {
	return withSocket(family, kind, protocol, func(int) error { return nil })
}

func fastOpen(s scene) error {
	return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: s.Denied, Addr: [4]byte{127, 0, 0, 1}})
	})
}

// watch makes the kernel report accesses to a folder.
func watch(path string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_ALL_EVENTS)
	return err
}

const (
	ipcRemove = 0 // IPC_RMID
	ipcStatus = 2 // IPC_STAT
)

// ipcStat asks for the state of something of System V's; whoever may, may mostly change and remove
// it, too.
func ipcStat(call uintptr, id int) error {
	var state [256]byte
	args := [2]uintptr{ipcStatus, uintptr(unsafe.Pointer(&state))}
	var errno syscall.Errno
	if call == unix.SYS_SEMCTL {
		_, _, errno = unix.Syscall6(call, uintptr(id), 0, args[0], args[1], 0, 0)
	} else {
		_, _, errno = unix.Syscall(call, uintptr(id), args[0], args[1])
	}
	runtime.KeepAlive(&state)
	if errno != 0 {
		return errno
	}
	return nil
}

const noCapability = "no capability"

func capability(scene) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	if data != [2]unix.CapUserData{} {
		return nil
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if ambient, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, c, 0, 0); err == nil && ambient == 1 {
			return nil
		}
		if bounded, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && bounded == 1 && os.Getuid() == 0 {
			return nil
		}
	}
	return errors.New(noCapability)
}

// runProbes prints the result of each probe, for each thread.
func runProbes(text string) {
	var s scene
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	all := make([]map[string]string, s.Threads)
	var threads sync.WaitGroup
	for i := range all {
		all[i] = make(map[string]string)
		run := func() {
			runtime.LockOSThread()
			s := s
			s.Suffix = fmt.Sprint(i)
			for _, p := range probes {
				result := "ok"
				if err := p.try(s); err != nil {
					result = strings.ReplaceAll(err.Error(), "\n", "; ")
				}
				all[i][p.name] = result
			}
		}
		if i == 0 {
			run() // alone: what changes the file system for all must not disturb the others
			continue
		}
		threads.Go(run)
	}
	threads.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		panic(err)
	}
	os.Exit(0)
}
