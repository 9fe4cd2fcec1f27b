package confine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// interpret runs a filter as the kernel does, for the instructions that our filters use.
func interpret(t *testing.T, program []unix.SockFilter, arch, call uint32, args ...uint64) uint32 {
	t.Helper()
	var data [16]uint32 // struct seccomp_data
	data[0], data[1] = call, arch
	for i, a := range args {
		data[4+2*i], data[5+2*i] = uint32(a), uint32(a>>32)
	}
	var accumulator uint32
	for i := 0; i < len(program); i++ {
		op := program[i]
		skip := func(yes bool) {
			if yes {
				i += int(op.Jt)
			} else {
				i += int(op.Jf)
			}
		}
		switch op.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			accumulator = data[op.K/4]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			accumulator &= op.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			skip(accumulator == op.K)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			skip(accumulator > op.K)
		case unix.BPF_RET | unix.BPF_K:
			return op.K
		default:
			t.Fatalf("instruction %d: %+v", i, op)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func TestFilter(t *testing.T) {
	const (
		allow   = unix.SECCOMP_RET_ALLOW
		kill    = unix.SECCOMP_RET_KILL_PROCESS
		foreign = 0x40000003 // AUDIT_ARCH_I386
		x32     = 0x40000000
		high    = 1 << 32 // what the kernel ignores
	)
	fails := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	nothing, web, names, all := Network{}, Network{Ports: []uint16{443}}, Network{Ports: []uint16{53, 443}}, Network{All: true}
	for _, test := range []struct {
		why     string
		network Network
		arch    uint32
		call    uint32
		args    []uint64
		want    uint32
	}{
		{"any other call", nothing, auditArch, unix.SYS_READ, nil, allow},
		{"a foreign architecture", all, foreign, unix.SYS_READ, nil, kill},
		{"x32, or younger than this filter", all, auditArch, x32 | unix.SYS_READ, nil, fails(unix.ENOSYS)},
		{"the youngest", all, auditArch, lastCall, nil, allow},
		{"younger", all, auditArch, lastCall + 1, nil, fails(unix.ENOSYS)},
		{"a thread", nothing, auditArch, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		{"a user namespace among others", nothing, auditArch, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_NEWUSER}, fails(unix.EPERM)},
		{"flags that cannot be seen", nothing, auditArch, unix.SYS_CLONE3, nil, fails(unix.ENOSYS)},
		{"local", nothing, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, allow},
		{"local, upper half ignored", nothing, auditArch, unix.SYS_SOCKET, []uint64{high | unix.AF_UNIX, high | unix.SOCK_STREAM}, allow},
		{"internet, upper half ignored", nothing, auditArch, unix.SYS_SOCKET, []uint64{high | unix.AF_INET, unix.SOCK_STREAM}, fails(unix.EACCES)},
		{"SOCK_RAW is a datagram socket", nothing, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, fails(unix.EACCES)},
		{"a pair of datagram sockets", web, auditArch, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, fails(unix.EACCES)},
		{"connect", nothing, auditArch, unix.SYS_CONNECT, nil, fails(unix.EACCES)},
		{"connect, by landlock's leave", web, auditArch, unix.SYS_CONNECT, nil, allow},
		{"TCP by name", web, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
		{"MPTCP", web, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, fails(unix.EACCES)},
		{"SMC, which becomes TCP", web, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_SMC, unix.SOCK_STREAM, 0}, fails(unix.EACCES)},
		{"UDP", web, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, 0}, fails(unix.EACCES)},
		{"UDP for names", names, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, 0}, allow},
		{"ICMP in a datagram socket", names, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, fails(unix.EACCES)},
		{"SCTP in a stream", names, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, fails(unix.EACCES)},
		{"send", names, auditArch, unix.SYS_SENDTO, []uint64{3, 0, 0, unix.MSG_NOSIGNAL}, allow},
		{"connect by sending", names, auditArch, unix.SYS_SENDTO, []uint64{3, 0, 0, unix.MSG_NOSIGNAL | unix.MSG_FASTOPEN}, fails(unix.EOPNOTSUPP)},
		{"connect by sending a message", names, auditArch, unix.SYS_SENDMSG, []uint64{3, 0, unix.MSG_FASTOPEN}, fails(unix.EOPNOTSUPP)},
		{"connect by sending messages", names, auditArch, unix.SYS_SENDMMSG, []uint64{3, 0, 1, unix.MSG_FASTOPEN}, fails(unix.EOPNOTSUPP)},
		{"all of the network", all, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, 0}, allow},
		{"a terminal's size", all, auditArch, unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, allow},
		{"a file's attributes", all, auditArch, unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_GETFLAGS}, allow},
		{"setting them", all, auditArch, unix.SYS_IOCTL, []uint64{0, high | unix.FS_IOC_SETFLAGS}, fails(unix.EPERM)},
		{"a copy by reference", all, auditArch, unix.SYS_IOCTL, []uint64{0, unix.FICLONE}, allow},
		{"a subvolume", all, auditArch, unix.SYS_IOCTL, []uint64{0, 0x5000940e}, fails(unix.EPERM)},
		{"its own limits", all, auditArch, unix.SYS_PRLIMIT64, []uint64{0}, allow},
		{"another's limits", all, auditArch, unix.SYS_PRLIMIT64, []uint64{1}, fails(unix.EPERM)},
		{"a group's priority", all, auditArch, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PGRP, 0}, fails(unix.EPERM)},
		{"its own priority", all, auditArch, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0}, allow},
	} {
		if got := interpret(t, filter(seccompRules(test.network, false)), test.arch, test.call, test.args...); got != test.want {
			t.Errorf("%s: %#x, want %#x", test.why, got, test.want)
		}
	}
}

// A socket of the host's opens unix sockets, and no others.
func TestFilterThatLetsConnect(t *testing.T) {
	filter := filter(seccompRules(Network{}, true))
	for call, args := range map[uint32][]uint64{unix.SYS_CONNECT: nil, unix.SYS_SOCKET: {unix.AF_UNIX, unix.SOCK_STREAM}} {
		if got := interpret(t, filter, auditArch, call, args...); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("call %d: %#x", call, got)
		}
	}
	for _, args := range [][]uint64{{unix.AF_INET, unix.SOCK_STREAM}, {unix.AF_UNIX, unix.SOCK_DGRAM}, {unix.AF_VSOCK, unix.SOCK_STREAM}} {
		if got := interpret(t, filter, auditArch, unix.SYS_SOCKET, args...); got != unix.SECCOMP_RET_ERRNO|uint32(unix.EACCES) {
			t.Errorf("socket %v: %#x", args, got)
		}
	}
}

// TestForeignArchitecture makes a system call of i386's, whose numbers mean something else.
func TestForeignArchitecture(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has a second set of system calls that is easily called")
	}
	dir := folder(t)
	path := filepath.Join(dir, "program")
	// An ELF file with one segment: mov eax, 1 (exit); mov ebx, 42; int 0x80; and if that did
	// nothing, exit with 7: mov eax, 60; mov edi, 7; syscall.

	elf := []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x3e\x00\x01\x00\x00\x00" + "\x78\x00\x40\x00\x00\x00\x00\x00" +
		"\x40\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x40\x00\x38\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00\x05\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x40\x00\x00\x00\x00\x00" + "\x00\x00\x40\x00\x00\x00\x00\x00" +
		"\x90\x00\x00\x00\x00\x00\x00\x00" + "\x90\x00\x00\x00\x00\x00\x00\x00" + "\x00\x10\x00\x00\x00\x00\x00\x00" +
		"\xb8\x01\x00\x00\x00\xbb\x2a\x00\x00\x00\xcd\x80" + "\xb8\x3c\x00\x00\x00\xbf\x07\x00\x00\x00\x0f\x05")
	if err := errors.Join(os.WriteFile(path, elf, 0o755), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	run := func(c *Confinement) syscall.WaitStatus {
		var exit *exec.ExitError
		if err := command(t, c, nil, path).Run(); !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return exit.Sys().(syscall.WaitStatus)
	}
	if got := run(nil); got.ExitStatus() != 42 {
		t.Skipf("this kernel has no system calls of i386: %v", got)
	}
	if got := run(prepare(t, Spec{Sandbox: true}, Own{Read: []string{dir}})); got.Signal() != unix.SIGSYS {
		t.Errorf("it ended with %v, want SIGSYS", got)
	}
}
