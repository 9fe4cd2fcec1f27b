package confine

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights to files and folders that landlock can deny, and the sets of them that the sandbox
// grants.
const (
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	folderRights = unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// deviceRights are never granted.
	deviceRights = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

	toRead   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	toRun    = toRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	toWrite  = fileRights | folderRights
	toDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// system lists the paths that programs need on any system, with the rights to them. Paths that do
// not exist are skipped. /proc, /home, /root, /sys, /tmp, /var and the rest of /etc, /dev and /run
// are not among them.
var system = []struct {
	rights uint64
	paths  []string
}{
	{toRun, systemFolders},
	{toRead, []string{
		"/etc/ld.so.cache", "/etc/ld.so.preload",
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf",
		"/etc/ca-certificates/extracted", "/etc/pki/ca-trust/extracted",
		"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf",
		"/etc/crypto-policies",
		"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf",
		"/etc/nsswitch.conf", "/etc/services", "/etc/protocols",
		"/etc/passwd", "/etc/group", "/etc/localtime", "/etc/timezone", "/etc/mime.types",
		"/dev/random", "/dev/urandom",
		// Folders, because the resolv.conf in them is sometimes replaced by another file.
		"/run/systemd/resolve", "/run/resolvconf",
	}},
	{toDevice, []string{"/dev/null", "/dev/zero", "/dev/full"}},
}

// landlockABI returns the kernel's version of landlock. The error is ENOSYS if it has none, and
// EOPNOTSUPP if landlock is switched off.
func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

// handled returns what a kernel with this version of landlock can deny.
func handled(abi int, n Network) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fileRights | folderRights | deviceRights}
	if abi < abiIoctl {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= abiTCP && !n.All {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP |
			unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= abiScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

// ruleset makes the landlock ruleset. The caller applies and closes it.
func (p *sandboxPlan) ruleset() (*os.File, error) {
	attr := handled(p.ABI, p.Network)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock: make a ruleset: %w", errno)
	}
	rules := os.NewFile(fd, "landlock")
	if err := p.fill(int(fd), attr.Handled_access_fs); err != nil {
		_ = rules.Close()
		return nil, err
	}
	return rules, nil
}

func (p *sandboxPlan) fill(rules int, handled uint64) error {
	to, err := newPaths(p.Write)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	allowPath := func(path string, rights uint64) error {
		fd, err := to.open(path)
		if err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
		defer unix.Close(fd)
		if err := allowBeneath(rules, fd, rights&handled); err != nil {
			return fmt.Errorf("landlock: %s: %w", path, err)
		}
		return nil
	}
	for _, s := range system {
		for _, path := range s.paths {
			err := allowPath(path, s.rights)
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, errStrays) {
				return err
			}
		}
	}
	for _, path := range p.Read {
		if err := allowPath(path, toRun); err != nil {
			return err
		}
	}
	for _, path := range p.Write {
		if err := allowPath(path, toWrite); err != nil {
			return err
		}
	}
	if p.Network.All {
		return nil
	}
	for _, port := range p.Network.Ports {
		if err := allowPort(rules, port); err != nil {
			return err
		}
	}
	return nil
}

// allowBeneath adds rights to an open file, or to a folder and everything in it.
func allowBeneath(rules, fd int, rights uint64) error {
	_, folder, err := inodeOf(fd)
	if err != nil {
		return err
	}
	if !folder {
		rights &= fileRights
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	return addRule(rules, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&attr))
}

// allowPort adds the right to connect to a TCP port.
func allowPort(rules int, port uint16) error {
	const rulePort = 2 // LANDLOCK_RULE_NET_PORT
	attr := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
	if err := addRule(rules, rulePort, unsafe.Pointer(&attr)); err != nil {
		return fmt.Errorf("landlock: port %d: %w", port, err)
	}
	return nil
}

func addRule(rules, kind int, attr unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE,
		uintptr(rules), uintptr(kind), uintptr(attr), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// restrict applies a ruleset to the calling thread, which must have no_new_privs.
func restrict(rules int) error {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}
