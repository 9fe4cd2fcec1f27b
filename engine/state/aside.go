package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Why a store is set aside, as its new name says.
const (
	damaged      = "damaged"
	foreign      = "foreign"
	otherVersion = "version"
	otherCluster = "cluster"
	unread       = "unread"  // the disk did not let it be opened at the start
	unstartable  = "crashes" // start after start ended before it was read
)

// asidePrefix is what the names of stores that were set aside begin with; then come the time and why.
const (
	asidePrefix = "broken-"
	maxAside    = 3
)

// setAside renames the store in dir, if there is one, and removes the oldest that were set aside before. It gives the new path.
func setAside(fs vfs.FS, dir, why string, now time.Time) (to string, err error) {
	store := fs.PathJoin(dir, storeName)
	if _, err := fs.Stat(store); isNotExist(err) {
		return "", nil
	}
	before, err := asideIn(fs, dir)
	if err != nil {
		return "", err
	}
	for len(before) >= maxAside {
		if err := fs.RemoveAll(fs.PathJoin(dir, before[0])); err != nil {
			return "", fmt.Errorf("remove a state that was set aside: %w", err)
		}
		before = before[1:]
	}
	name := asidePrefix + now.UTC().Format("20060102T150405.000000000Z") + "-" + why
	to = fs.PathJoin(dir, name)
	if err := fs.Rename(store, to); err != nil {
		return "", fmt.Errorf("set the state aside: %w", err)
	}
	return to, nil
}

// asideIn has the names of what was set aside, the oldest first.
func asideIn(fs vfs.FS, dir string) ([]string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, asidePrefix) })
	slices.Sort(names)
	return names, nil
}
