package confine

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// paths opens the paths that a sandbox grants. An earlier process of the handler, or one that still
// runs, may have made links where it may write. Such a link must not grant what it leads to.
type paths struct {
	writable folders // all folders that may be written
	given    folders // those that were reached without a link in another one
}

// errStrays says that a path goes through a link that the handler may have made.
var errStrays = errors.New("leads out of the handler's writable files by a link, " +
	"which the handler may have made: allow the link's target, " +
	"by a path that the handler cannot change")

func newPaths(write []string) (*paths, error) {
	p := &paths{folders{}, folders{}}
	for _, round := range []func(*place) error{
		func(at *place) error { return p.writable.add(at.fd) },
		func(at *place) error {
			if at.linked {
				return nil
			}
			return p.given.add(at.fd)
		},
	} {
		for _, path := range write {
			at, err := p.walk(path)
			if err != nil {
				return nil, err
			}
			err = round(at)
			at.close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return p, nil
}

// open opens a path (O_PATH), which the caller closes.
func (p *paths) open(path string) (fd int, err error) {
	at, err := p.walk(path)
	if err != nil {
		return -1, err
	}
	defer at.close()
	if at.linked {
		inside, err := p.given.hold(at.fd)
		if errors.Is(err, unix.ENOTDIR) {
			inside, err = p.given.hold(at.dir)
		}
		if err == nil && !inside {
			err = errStrays
		}
		if err != nil {
			return -1, fmt.Errorf("%s: %w", path, err)
		}
	}
	return unix.FcntlInt(uintptr(at.fd), unix.F_DUPFD_CLOEXEC, 0)
}

// place is the target of a path.
type place struct {
	fd, dir int  // the target, and the folder that contains it
	linked  bool // the path goes through a link in a writable folder
}

func (at *place) close() { _, _ = unix.Close(at.fd), unix.Close(at.dir) }

// step moves to the entry of this name; "/" is the root.
func (at *place) step(name string, flags int) error {
	next, err := unix.Openat(at.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return err
	}
	_ = unix.Close(at.dir)
	at.dir, at.fd = at.fd, next
	return nil
}

// walk resolves a path, name by name and link by link.
func (p *paths) walk(path string) (_ *place, err error) {
	at := &place{fd: unix.AT_FDCWD, dir: -1}
	defer func() {
		if err != nil {
			at.close()
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	if err := at.step("/", 0); err != nil {
		return nil, err
	}
	const most = 40 // links, the kernel's own bound
	names := func(path string) []string {
		return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	}
	rest := names(path)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		var text [unix.PathMax]byte
		n, err := unix.Readlinkat(at.fd, name, text[:])
		switch {
		case errors.Is(err, unix.EINVAL): // not a link
			flags := 0
			if len(rest) > 0 {
				flags = unix.O_DIRECTORY // triggers an automount
			}
			if err := at.step(name, flags); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		if links++; links > most {
			return nil, unix.ELOOP
		}
		own, err := p.writable.hold(at.fd)
		if err != nil {
			return nil, err
		}
		at.linked = at.linked || own
		to := string(text[:n])
		if strings.HasPrefix(to, "/") {
			if err := at.step("/", 0); err != nil {
				return nil, err
			}
		}
		rest = append(names(to), rest...)
	}
	return at, nil
}

// folders is a set of folders with everything below them.
type folders map[inode]bool

type inode struct{ dev, ino uint64 }

func inodeOf(fd int) (_ inode, folder bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return inode{}, false, err
	}
	return inode{uint64(st.Dev), st.Ino}, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// add adds a folder. It ignores a file, which contains no links.
func (f folders) add(fd int) error {
	id, folder, err := inodeOf(fd)
	if folder {
		f[id] = true
	}
	return err
}

// hold reports whether a folder is in the set, by whatever name.
func (f folders) hold(fd int) (bool, error) {
	at := &place{dir: -1}
	var err error
	if at.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return false, err
	}
	defer at.close()
	for last := (inode{}); ; {
		id, folder, err := inodeOf(at.fd)
		switch {
		case err != nil:
			return false, err
		case !folder:
			return false, unix.ENOTDIR
		case f[id]:
			return true, nil
		case id == last: // the root's parent is the root
			return false, nil
		}
		last = id
		if err := at.step("..", 0); err != nil {
			return false, err
		}
	}
}
