// Package confine gives a handler's process as little power as its work needs: limits on what it takes, another user to
// run as, and a sandbox that leaves of the file system and the network what it was given. Linux only.
//
// Prepare decides in the daemon, from what this machine has, how all that was asked for is enforced, and refuses what
// cannot be: it never enforces less. The process that is to become the handler then applies the Order to itself and
// executes the handler.
//
// A sandbox is no_new_privs, no capability, a landlock ruleset, and a seccomp filter for what landlock does not know:
// sockets other than TCP, io_uring, keyrings, System V's IPC, user namespaces, the modes and owners of files, watches on
// them. Neither knows stat, readlink and chdir: what is known by its name can be asked for its size, times, owner and
// mode, as far as the user may. Landlock and seccomp are
// spoken to directly. The libraries for them apply to all threads of a process that lives on, and go-landlock falls back
// to less by itself or demands one version of the kernel's; here one thread executes another program at once, each
// missing feature is an error of its own, and all of it is linked into a process per handler that has to stay small.
package confine

// Spec is what is asked for. The zero Spec asks for nothing.
type Spec struct {
	// User to run as: a name, UID or UID:GID; empty: the daemon's. Only a daemon that is root can do so. The process is in
	// the user's primary group, or GID, and in no other. It is not root; root's
	// group has to be asked for, as GID.
	User string
	// Limits on what the handler and everything that it starts take.
	Limits Limits
	// Sandbox takes away every privilege, for good, and leaves of the file system and of the network what Read, Write and
	// Network name, and what every program needs.
	Sandbox bool
	Read    []string // absolute paths of files and folders that the sandbox lets be read and executed
	Write   []string // and of those that it lets be written, too
	Network Network
}

func (s *Spec) zero() bool { return s.User == "" && s.Limits == (Limits{}) && !s.Sandbox }

// Limits are bounds; a zero is none.
type Limits struct {
	Memory    int64 // bytes; without cgroup v2 of each process by itself, memory that it can share not counted
	CPU       int64 // thousandths of a core, on average
	Files     int   // open files, per process
	Processes int   // processes and threads
}

// Network is what a sandbox lets be reached; the zero Network is nothing. With anything else (and with Own.Connect) unix sockets
// are open, too, as far as the user goes; and with ports the kernel still lets a process listen where it does not ask for a port but takes
// the one that it is given.
type Network struct {
	All   bool     `json:"all,omitempty"`
	Ports []uint16 `json:"ports,omitempty"` // ports that TCP connections may be made to, on any host. 53 allows UDP as well, for names
}

// Own is what the host adds to the paths of a sandbox, so that the handler can run at all. All are absolute and exist.
type Own struct {
	Read  []string // the executable, the working directory
	Write []string // the socket directory, the temporary directory
	// Connect says that the handler comes to a unix socket of the host's. No sandbox can let it come to one alone: all are
	// open to it then, as far as the user goes.
	Connect bool
}

// Error is Prepare's: what was asked for cannot be enforced as things are. Trying again soon does not help.
type Error struct {
	What string // the manifest's field
	Err  error  // why it cannot, and what to do
}

func (e *Error) Error() string { return e.What + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }
