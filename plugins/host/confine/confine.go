// Package confine gives a handler's process as little power as its work needs: limits on resources,
// another user to run as, and a sandbox that leaves it only named parts of the file system and the
// network. Linux only.
//
// Prepare runs in the daemon. It decides how to enforce each demand on this machine, and refuses
// those that it cannot enforce: it never enforces less. The process that is to become the handler
// then applies the Order to itself and executes the handler.
//
// A sandbox is no_new_privs, no capabilities, a landlock ruleset, and a seccomp filter for all that
// landlock does not cover: sockets other than TCP, io_uring, keyrings, System V IPC, user
// namespaces, modes and owners of files, and watches on them. Neither covers stat, readlink and
// chdir: a process that knows a name can read the file's size, times, owner and mode, if its user
// may.
//
// The package calls landlock and seccomp directly. The libraries for them apply to all threads of a
// process that lives on, and go-landlock silently enforces less or demands one version of the
// kernel. Here one thread executes another program at once, each missing feature is an error of its
// own, and the code is linked into a process per handler that must stay small.
package confine

import (
	"path/filepath"
	"slices"
)

// Spec is what to confine a process to. The zero Spec confines it to nothing.
type Spec struct {
	// User is whom the process runs as: a name, UID or UID:GID; empty: the daemon's user. Only a
	// daemon that is root can run it as another user. The process is in the user's primary group,
	// or GID, and in no other. The user cannot be root. Root's group must be named as GID.
	User string
	// Limits bound the resources of the handler and everything that it starts.
	Limits Limits
	// Sandbox takes away every privilege for good. Of the file system and the network it leaves
	// what Read, Write and Network name, and what every program needs.
	Sandbox bool
	Read    []string // absolute paths of files and folders that may be read and executed
	Write   []string // absolute paths that may be written, too
	Network Network
}

// systemFolders are those that every sandbox opens, of programs and libraries.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// Opens reports whether the sandbox opens an absolute path, judging by names only: it follows no
// links.
func (s *Spec) Opens(path string) bool {
	for _, granted := range slices.Concat(s.Read, s.Write, systemFolders) {
		below, err := filepath.Rel(granted, path)
		if err == nil && filepath.IsLocal(below) {
			return true
		}
	}
	return false
}

func (s *Spec) zero() bool { return s.User == "" && s.Limits == (Limits{}) && !s.Sandbox }

// Limits are bounds; 0 is none.
type Limits struct {
	Memory    int64 // bytes; without cgroup v2 for each process by itself, without shared memory
	CPU       int64 // thousandths of a core, on average
	Files     int   // open files, per process
	Processes int   // processes and threads
}

// Network is what a sandboxed process may reach; the zero Network is nothing. Anything else, and
// Own.Connect, also opens all unix sockets that the user may use. With ports, a process can still
// listen on a port that the kernel picks.
type Network struct {
	All   bool     `json:"all,omitempty"`
	Ports []uint16 `json:"ports,omitempty"` // of TCP, to any host; 53 allows UDP as well, for DNS
}

// Own is what the host adds to a sandbox so that the handler can run at all. All paths are absolute
// and exist.
type Own struct {
	Read  []string // the executable, the working directory
	Write []string // the socket directory, the temporary directory
	// Connect lets the handler connect to a unix socket of the host. No sandbox can open a single
	// one, so it may connect to all that its user may use.
	Connect bool
}

// Error says that a demand cannot be enforced as things are. A retry soon does not help.
type Error struct {
	What string // field of the manifest
	Err  error  // why it cannot be enforced, and what to do
}

func (e *Error) Error() string { return e.What + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }
