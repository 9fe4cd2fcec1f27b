package confine

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// user returns the user that s names, and the home directory, which is empty if the system knows
// none. Root is an error, and so is root's group unless s names it.
func (m machine) user(s string) (identity, string, error) {
	id, home, err := m.anyUser(s)
	switch {
	case err != nil:
		return identity{}, "", err
	case id.UID == 0:
		return identity{}, "", fmt.Errorf("%q is root: leave user out, or name another", s)
	case id.GID == 0 && !strings.Contains(s, ":"):
		return identity{}, "", fmt.Errorf("%q is in root's group, which can open some of root's "+
			"files: write %d:GID with another group, or %d:0 if you mean that",
			s, id.UID, id.UID)
	}
	return id, home, nil
}

func (m machine) anyUser(s string) (identity, string, error) {
	var none identity
	if m.uid != 0 {
		return none, "", errors.New("cannot be enforced here: only a daemon that is root can " +
			"run a handler as another user; run it as root, or leave user out")
	}
	if missing := missing(m.may); len(missing) > 0 {
		return none, "", fmt.Errorf("cannot be enforced here: the daemon is root without the "+
			"capabilities %s: add them, or leave user out", strings.Join(missing, ", "))
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
			return none, "", fmt.Errorf("the system does not know user %s, "+
				"nor which group that user is in: write UID:GID", s)
		}
	} else if u, err = user.Lookup(s); err != nil {
		return none, "", fmt.Errorf("the system does not know user %q: "+
			"create the user, or write UID:GID", s)
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

// missing returns the capabilities that are not in effective and that the daemon needs for another
// user's process: to start it, to give it its folders, to end it and to remove what it left.
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

// capabilities returns the calling thread's effective capabilities.
func capabilities() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0 // not expected; assume that nothing is allowed
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

// id parses the number of a user or group. The highest one means "unchanged" to the kernel and is
// an error.
func id(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("%q is not a number from 0 to 4294967294", s)
	}
	return int(n), nil
}
