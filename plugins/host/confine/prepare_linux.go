package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// machine is what this machine offers, from which Prepare decides.
type machine struct {
	uid      int                   // of the daemon
	may      uint64                // the daemon's effective capabilities, one bit each
	landlock func() (int, error)   // the kernel's version
	seccomp  func() error          // returns why this package's filter cannot be loaded
	tree     func() (*tree, error) // where the daemon can create cgroups
}

func thisMachine() machine {
	return machine{
		uid: os.Geteuid(), may: capabilities(), tree: ownTree,
		landlock: landlockABI, seccomp: seccompAvailable,
	}
}

func (m machine) prepare(s Spec, name string, own Own) (*Confinement, error) {
	c := new(Confinement)
	var says []string
	uid := m.uid
	if s.User != "" {
		id, home, err := m.user(s.User)
		if err != nil {
			return nil, &Error{"user", err}
		}
		c.order.User, c.home, uid = &id, home, id.UID
		says = append(says, fmt.Sprintf("user %d:%d", id.UID, id.GID))
	}
	if s.Sandbox {
		plan, err := m.sandbox(s, own)
		if err != nil {
			return nil, err
		}
		c.order.Sandbox = plan
	}
	enforced, err := m.limits(s.Limits, uid, name)
	if err != nil {
		return nil, err
	}
	c.order.Rlimits, c.group = enforced.rlimits, enforced.group
	says = append(says, enforced.says()...)
	if s.Sandbox {
		said := fmt.Sprintf("sandbox by landlock %d and seccomp", c.order.Sandbox.ABI)
		if own.Connect || connects(s.Network) {
			said += ", but for unix sockets that its user may connect to"
		}
		if c.order.Sandbox.ABI < abiScopes {
			said += ", but for signals to other processes of its user"
		}
		says = append(says, said)
	}
	c.text = strings.Join(says, "; ")
	return c, nil
}

// Versions of landlock, named after their additions.
// https://docs.kernel.org/userspace-api/landlock.html
const (
	abiTruncate = 3 // Linux 6.2: no truncation of files that may not be written
	abiTCP      = 4 // 6.7: TCP bind and connect
	abiIoctl    = 5 // 6.10: ioctl on devices
	abiScopes   = 6 // 6.12: abstract sockets and signals
)

// connects reports whether n allows any connection at all.
func connects(n Network) bool { return n.All || len(n.Ports) > 0 }

func (m machine) sandbox(s Spec, own Own) (*sandboxPlan, error) {
	refuse := func(what, format string, args ...any) (*sandboxPlan, error) {
		return nil, &Error{what, fmt.Errorf("cannot be enforced here: "+format, args...)}
	}
	if err := m.seccomp(); err != nil {
		return refuse("sandbox", "%w", err)
	}
	abi, err := m.landlock()
	switch {
	case errors.Is(err, unix.ENOSYS):
		return refuse("sandbox", "the kernel has no landlock, or a container's seccomp profile "+
			"hides it: it takes Linux 6.2 with CONFIG_SECURITY_LANDLOCK")
	case errors.Is(err, unix.EOPNOTSUPP):
		return refuse("sandbox",
			"landlock is switched off: boot with landlock among those that lsm= lists")
	case err != nil:
		return refuse("sandbox", "landlock does not answer: %w", err)
	case abi < abiTruncate:
		return refuse("sandbox", "the kernel has landlock %d, which lets files be truncated "+
			"that may not be written: it takes landlock %d, Linux 6.2", abi, abiTruncate)
	case s.User == "" && abi < abiScopes:
		what := "give the handler a user"
		if m.uid != 0 {
			what = "run informd as root and give the handler a user"
		}
		return refuse("sandbox", "the kernel has landlock %d, with which a handler of informd's own "+
			"user can stop or kill informd and other handlers: it takes landlock %d, Linux 6.12; "+
			"or %s", abi, abiScopes, what)
	case !s.Network.All && len(s.Network.Ports) > 0 && abi < abiTCP:
		return refuse("network", "the kernel has landlock %d, ports take landlock %d, Linux 6.7: "+
			"choose none or all", abi, abiTCP)
	}
	if m.uid == 0 && s.User == "" {
		const why = "the kernel can close all unix sockets to a sandbox or none of them, and root " +
			"may connect to every one, also to those that lead out of the sandbox " +
			"(Docker's, D-Bus): give the handler a user, or "
		switch {
		case connects(s.Network):
			return refuse("network", why+"choose network: none")
		case own.Connect:
			return refuse("access.read", why+"leave out access.read, which needs such a socket")
		}
	}
	var missing []*Error
	for _, list := range []struct {
		what  string
		paths []string
		whole string // what to do if the path is the root; empty: the root is allowed
	}{
		{"files.read", s.Read, ""},
		{"files.write", s.Write, ""},
		{"sandbox", own.Read,
			"the working directory is the whole file system: start the daemon in another"},
		{"sandbox", own.Write,
			"the directory for temporary files is the whole file system: set another"},
	} {
		for _, path := range list.paths {
			if err := usable(path); err != nil {
				missing = append(missing, &Error{list.what, err})
			} else if list.whole != "" && filepath.Clean(path) == "/" {
				return refuse(list.what, "%s", list.whole)
			}
		}
	}
	if err := refusal(missing); err != nil {
		return nil, err
	}
	return &sandboxPlan{
		ABI:     abi,
		Read:    append(append([]string(nil), s.Read...), own.Read...),
		Write:   append(append([]string(nil), s.Write...), own.Write...),
		Network: s.Network,
		Connect: own.Connect,
	}, nil
}

// refusal returns one error for everything that cannot be enforced, at most as much as a person
// reads; nil for nothing.
func refusal(all []*Error) error {
	const most = 8
	if len(all) == 0 {
		return nil
	}
	e := *all[0]
	for _, other := range all[1:min(len(all), most)] {
		e.Err = fmt.Errorf("%w; %w", e.Err, other)
	}
	if len(all) > most {
		e.Err = fmt.Errorf("%w; and %d more", e.Err, len(all)-most)
	}
	return &e
}

// usable returns why a sandbox cannot grant a path, or nil.
func usable(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	switch _, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist: create it, or leave it out", path)
	case err != nil:
		return err
	}
	return nil
}
