package confine

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
)

// user finds who is meant. The home directory is empty if the system knows none.
func (m machine) user(s string) (identity, string, error) {
	var none identity
	if m.uid != 0 {
		return none, "", errors.New("cannot be enforced here: only a daemon that is root can run a handler as another user; run it as root, or leave user out")
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

// id reads a user's or a group's number. The highest means "unchanged" to the kernel.
func id(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("%q is not a number from 0 to 4294967294", s)
	}
	return int(n), nil
}
