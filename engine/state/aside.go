// The stores that are set aside: their names, how many are kept, and why a store is unfit.

package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/risk"
)

// These are the reasons for setting a store aside. The reason is part of its new name.
const (
	damaged      = "damaged"
	foreign      = "foreign"
	otherVersion = "version"
	otherCluster = "cluster"
	unread       = "unread"  // the disk did not allow opening it at the start
	unstartable  = "crashes" // ten processes in a row crashed in it
)

// unfit returns why the store must not be opened, or "".
func unfit(fs vfs.FS, store string) string {
	if _, err := fs.Stat(fs.PathJoin(store, risk.Damaged)); err == nil {
		return damaged
	}
	opening, compacting := risk.Count(fs, store, risk.Opening), risk.Count(fs, store, risk.Compacting)
	if max(opening, compacting) >= risk.MaxEnds {
		return unstartable
	}
	return ""
}

// asidePrefix begins the names of stores that were set aside. The time and the reason follow.
const (
	asidePrefix = "broken-"
	asideTime   = "20060102T150405.000000000Z"
	maxAside    = 3
)

// setAside renames the store in dir, if there is one, and returns its new path. It removes the
// oldest stores that were set aside before, so that maxAside remain.
func setAside(fs vfs.FS, dir, why string, now time.Time) (to string, err error) {
	store := fs.PathJoin(dir, storeName)
	if _, err := fs.Stat(store); disk.IsNotExist(err) {
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
	name := asidePrefix + now.UTC().Format(asideTime) + "-" + why
	to = fs.PathJoin(dir, name)
	if err := fs.Rename(store, to); err != nil {
		return "", fmt.Errorf("set the state aside: %w", err)
	}
	return to, nil
}

// asideAt returns when a store was set aside, by its name. The zero time means that the name does not
// say.
func asideAt(name string) time.Time {
	at, _, _ := strings.Cut(strings.TrimPrefix(name, asidePrefix), "-")
	t, _ := time.Parse(asideTime, at)
	return t
}

// asideIn returns the names of the stores that were set aside, the oldest first.
func asideIn(fs vfs.FS, dir string) ([]string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	isOther := func(name string) bool { return !strings.HasPrefix(name, asidePrefix) }
	names = slices.DeleteFunc(names, isOther)
	slices.Sort(names)
	return names, nil
}
