// Package confine gives a handler's process as little power as its work needs: limits on what it takes, another user to
// run as, and a sandbox that leaves of the file system and the network what it was given.
package confine

// Spec is what is asked for. The zero Spec asks for nothing.
type Spec struct {
	// User to run as: a name, UID or UID:GID; empty: the daemon's. Only a daemon that is root can do so. The process is in
	// the user's primary group, or GID, and in no other.
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
	Memory    int64 // bytes
	CPU       int64 // thousandths of a core, on average
	Files     int   // open files, per process
	Processes int   // processes and threads
}

// Network is what a sandbox lets be reached; the zero Network is nothing.
type Network struct {
	All   bool
	Ports []uint16 // ports that TCP connections may be made to, on any host. 53 allows UDP as well, for names
}

// Own is what the host adds to the paths of a sandbox, so that the handler can run at all. All are absolute and exist.
type Own struct {
	Read  []string // the executable, the working directory
	Write []string // the socket directory, the temporary directory
}
