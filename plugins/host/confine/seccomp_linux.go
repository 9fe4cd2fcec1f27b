package confine

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denial denies a system call with errno: always; unless a match holds; or only when a match holds.
// At most one of unless and when is set.
type denial struct {
	call         uint32
	errno        unix.Errno
	unless, when []match
}

// match holds if all its conditions hold.
type match []condition

// condition says that the masked bits of an argument have a value. The kernel uses 32 bits of these
// arguments, and so does this.
type condition struct {
	arg         int
	mask, value uint32
}

const whole = ^uint32(0) // a mask of all bits

// lastCall is the highest system call that this filter considers. Later ones are denied, as on a
// kernel that does not have them.
const lastCall = unix.SYS_RSEQ_SLICE_YIELD

// seccompRules returns the system calls that a sandbox denies. connect allows connections to unix
// sockets whatever n says.
func seccompRules(n Network, connect bool) []denial {
	var all []denial
	deny := func(errno unix.Errno, calls ...uint32) {
		for _, call := range calls {
			all = append(all, denial{call: call, errno: errno})
		}
	}
	denyUnless := func(errno unix.Errno, unless []match, calls ...uint32) {
		for _, call := range calls {
			all = append(all, denial{call: call, errno: errno, unless: unless})
		}
	}

	// io_uring does the work of system calls without making them.
	deny(unix.ENOSYS, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER)

	// A user namespace grants all capabilities within itself. A filter cannot see the flags of
	// clone3, and every libc can do without it.
	noUserNamespace := []match{{{0, unix.CLONE_NEWUSER, 0}}}
	deny(unix.ENOSYS, unix.SYS_CLONE3)
	denyUnless(unix.EPERM, noUserNamespace, unix.SYS_CLONE, unix.SYS_UNSHARE)
	deny(unix.EPERM, unix.SYS_SETNS)

	// Landlock does not cover keyrings, nor the shared memory and queues of System V and POSIX,
	// which other processes of the user can reach; nor the owner, mode, attributes and times of
	// files.
	deny(unix.EPERM, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL,
		unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK)
	deny(unix.EPERM, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2,
		unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
		unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR)
	all = append(all, denial{call: unix.SYS_IOCTL, errno: unix.EPERM, when: changingRequests})
	deny(unix.EPERM, archCalls...)

	// Nor does it cover watches, which reveal the names of files that may not be listed, and their
	// use. Programs poll on kernels without inotify.
	deny(unix.ENOSYS, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH)
	deny(unix.EPERM, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK)

	// Large parts of the kernel that handlers do not need, and the kernel's log.
	deny(unix.EPERM, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_SYSLOG)

	// Limits and priorities of other processes of the user.
	self := []match{{{0, whole, 0}}}
	denyUnless(unix.EPERM, self, unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR)
	denyUnless(unix.EPERM, []match{{{0, whole, unix.PRIO_PROCESS}, {1, whole, 0}}},
		unix.SYS_SETPRIORITY)
	denyUnless(unix.EPERM, []match{{{0, whole, 1 /* IOPRIO_WHO_PROCESS */}, {1, whole, 0}}},
		unix.SYS_IOPRIO_SET)

	if n.All {
		return all
	}
	denyUnless(unix.EACCES, sockets(n), unix.SYS_SOCKET)
	denyUnless(unix.EACCES, localSockets, unix.SYS_SOCKETPAIR)
	if len(n.Ports) == 0 && !connect { // with connect, there are only local sockets anyway
		deny(unix.EACCES, unix.SYS_CONNECT)
	}
	// TCP fast open makes a connection without the call connect.
	denyUnless(unix.EOPNOTSUPP, []match{{{3, unix.MSG_FASTOPEN, 0}}},
		unix.SYS_SENDTO, unix.SYS_SENDMMSG)
	denyUnless(unix.EOPNOTSUPP, []match{{{2, unix.MSG_FASTOPEN, 0}}}, unix.SYS_SENDMSG)
	return all
}

// changingRequests match the ioctl requests that change files or create folders through a
// descriptor that is open for reading only. Landlock covers the requests of devices only.
var changingRequests = requests(
	// linux/fs.h, ext4, fsverity.h, fscrypt.h: SETFLAGS, FSSETXATTR, SETVERSION, ext4's SETVERSION,
	// ENABLE_VERITY, SET_ENCRYPTION_POLICY
	'f'<<8|2, 'X'<<8|32, 'v'<<8|2, 'f'<<8|4, 'f'<<8|133, 'f'<<8|19,
	// linux/btrfs.h: SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY, SNAP_CREATE_V2, SUBVOL_CREATE_V2,
	// SUBVOL_SETFLAGS, SET_RECEIVED_SUBVOL, SNAP_DESTROY_V2
	0x94<<8|1, 0x94<<8|14, 0x94<<8|15, 0x94<<8|23, 0x94<<8|24, 0x94<<8|26, 0x94<<8|37, 0x94<<8|63,
)

// requests match ioctl requests with one of these types and numbers, whatever the size of their
// argument.
func requests(numbers ...uint32) (all []match) {
	for _, n := range numbers {
		all = append(all, match{{1, 0xffff, n}})
	}
	return all
}

const socketType = 0xf // mask; the higher bits are flags

// localSockets match the unix sockets that must be connected. A datagram socket could send to any
// other one without that.
var localSockets = []match{
	{{0, whole, unix.AF_UNIX}, {1, socketType, unix.SOCK_STREAM}},
	{{0, whole, unix.AF_UNIX}, {1, socketType, unix.SOCK_SEQPACKET}},
}

// sockets match the sockets that may be created. Landlock checks the ports of TCP, and of no other
// kind of socket.
func sockets(n Network) []match {
	if len(n.Ports) == 0 {
		return localSockets
	}
	may := []match{{{0, whole, unix.AF_UNIX}}}
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint32{0, unix.IPPROTO_TCP} {
			may = append(may, match{
				{0, whole, family}, {1, socketType, unix.SOCK_STREAM}, {2, whole, protocol},
			})
		}
		if !slices.Contains(n.Ports, 53) {
			continue
		}
		for _, protocol := range []uint32{0, unix.IPPROTO_UDP} {
			may = append(may, match{
				{0, whole, family}, {1, socketType, unix.SOCK_DGRAM}, {2, whole, protocol},
			})
		}
	}
	return may
}

// filter compiles the rules to a program for the kernel (struct seccomp_data, little endian).
func filter(rules []denial) []unix.SockFilter {
	const (
		offsetCall = 0
		offsetArch = 4
		offsetArgs = 16
	)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}

	program := []unix.SockFilter{
		load(offsetArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		end(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetCall),
		jump(unix.BPF_JGT, lastCall, 0, 1), // on amd64 this denies the calls of x32, too
		end(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
	}
	for _, r := range rules {
		matched, otherwise := uint32(unix.SECCOMP_RET_ALLOW), unix.SECCOMP_RET_ERRNO|uint32(r.errno)
		matches := r.unless
		if r.when != nil {
			matches, matched, otherwise = r.when, otherwise, matched
		}
		var body []unix.SockFilter
		for _, m := range matches {
			var test []unix.SockFilter
			for i := len(m) - 1; i >= 0; i-- { // backwards: jumps need the distance to the end
				c := m[i]
				rest := uint8(len(test))
				test = append([]unix.SockFilter{
					load(offsetArgs + 8*uint32(c.arg)),
					{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask},
					jump(unix.BPF_JEQ, c.value, 0, rest+1),
				}, test...)
			}
			body = append(append(body, test...), end(matched))
		}
		body = append(body, end(otherwise))
		program = append(append(program, jump(unix.BPF_JEQ, r.call, 0, uint8(len(body)))), body...)
	}
	return append(program, end(unix.SECCOMP_RET_ALLOW))
}

// seccompAvailable returns why the filter cannot be loaded here, or nil.
func seccompAvailable() error {
	if auditArch == 0 {
		return fmt.Errorf("the sandbox knows the system calls of amd64 and arm64, "+
			"not those of %s", runtime.GOARCH)
	}
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0,
		uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return errors.New("the kernel has no seccomp filters: it needs CONFIG_SECCOMP_FILTER")
	}
	return nil
}

// loadFilter applies a filter to the calling thread, which must have no_new_privs.
func loadFilter(program []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
