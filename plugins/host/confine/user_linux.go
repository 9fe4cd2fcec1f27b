package confine

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// user finds who is meant: anybody but root, and in root's group only if that was asked for. The home directory is empty
// if the system knows none.
func (m machine) user(s string) (identity, string, error) {
	id, home, err := m.anyUser(s)
	switch {
	case err != nil:
		return identity{}, "", err
	case id.UID == 0:
		return identity{}, "", fmt.Errorf("%q is root: leave user out, or name another", s)
	case id.GID == 0 && !strings.Contains(s, ":"):
		return identity{}, "", fmt.Errorf("%q is in root's group, which some of root's files are open to: write %d:GID with another group, or %d:0 if that is meant", s, id.UID, id.UID)
	}
	return id, home, nil
}

func (m machine) anyUser(s string) (identity, string, error) {
	var none identity
	if m.uid != 0 {
		return none, "", errors.New("cannot be enforced here: only a daemon that is root can run a handler as another user; run it as root, or leave user out")
	}
	if missing := missing(m.may); len(missing) > 0 {
		return none, "", fmt.Errorf("cannot be enforced here: the daemon is root without the capabilities %s: add them, or leave user out", strings.Join(missing, ", "))
	}
	uidText, gidText, pair := strings.Cut(s, ":")
	uid, err := id(uidText)
	if pair {
		if err != nil {
			return none, "", fmt.Errorf("%q is not UID:GID: %w", s, err)
		}
		gid, err := id(gidText)
		if err != nil {
			return none, "", fmt.Errorf("%q is not UID:GID: %w", s, err)
		}
		if u, err := user.LookupId(uidText); err == nil {
			return identity{uid, gid}, u.HomeDir, nil
		}
		return identity{uid, gid}, "", nil
	}
	var u *user.User
	if err == nil {
		if u, err = user.LookupId(uidText); err != nil {
			return none, "", fmt.Errorf("the system does not know user %s, nor which group that user is in: write UID:GID", s)
		}
	} else if u, err = user.Lookup(s); err != nil {
		return none, "", fmt.Errorf("the system does not know user %q: create the user, or write UID:GID", s)
	}
	if uid, err = id(u.Uid); err != nil {
		return none, "", fmt.Errorf("user %q: %w", s, err)
	}
	gid, err := id(u.Gid)
	if err != nil {
		return none, "", fmt.Errorf("user %q: group: %w", s, err)
	}
	return identity{uid, gid}, u.HomeDir, nil
}

// missing are the capabilities that it takes to start another user's process, give it its folders, end it and remove what
// it left, and that are not in effective.
func missing(effective uint64) []string {
	var missing []string
	for _, c := range []struct {
		bit  int
		name string
	}{
		{unix.CAP_CHOWN, "CHOWN"},
		{unix.CAP_DAC_OVERRIDE, "DAC_OVERRIDE"},
		{unix.CAP_KILL, "KILL"},
		{unix.CAP_SETGID, "SETGID"},
		{unix.CAP_SETUID, "SETUID"},
	} {
		if effective&(1<<c.bit) == 0 {
			missing = append(missing, c.name)
		}
	}
	return missing
}

// capabilities are the calling thread's effective ones.
func capabilities() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0 // there is no reason for it to fail; if it does, nothing is known to be allowed
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

// id reads a user's or a group's number. The highest means "unchanged" to the kernel.
func id(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("%q is not a number from 0 to 4294967294", s)
	}
	return int(n), nil
}
