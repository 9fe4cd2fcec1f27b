package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/informd/informd/internal/ownfile"
	"github.com/informd/informd/plugins/host/shim"
)

// maxRunDir bounds the path of the run directory. A socket plugin-dir<number>/plugin<number> below
// it must fit into the 108 bytes of a unix socket's path.
const maxRunDir = 107 - len("/plugin-dir4294967295/plugin4294967295")

// findRunDir returns the directory in which socket directories are made, each with mode 0700. It
// creates a configured one if it does not exist. Another user's directory will not do: that user
// could replace what is in it.
func findRunDir(configured string) (string, error) {
	if configured != "" {
		dir, err := filepath.Abs(configured)
		if err != nil {
			return "", err
		}
		if len(dir) > maxRunDir {
			return "", fmt.Errorf("run directory %q is too long: the path of a socket in it must "+
				"stay below 108 bytes, so at most %d are left for it", dir, maxRunDir)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("run directory: %w", err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			return "", fmt.Errorf("run directory: %w", err)
		}
		if owner, foreign := ownfile.Foreign(info); foreign {
			return "", fmt.Errorf("run directory: %s belongs to another user (%d)", dir, owner)
		}
		return dir, nil
	}
	// The first directory that exists and is short enough.
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if !filepath.IsAbs(dir) || len(dir) > maxRunDir {
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			if _, foreign := ownfile.Foreign(info); !foreign {
				return dir, nil
			}
		}
	}
	return "", errors.New("no run directory for sockets: " +
		"neither $XDG_RUNTIME_DIR nor the directory for temporary files is usable")
}

// makeTempDir makes a directory for a process's temporary files, with mode 0700.
func makeTempDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "informd-tmp-*")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("make a directory for its temporary files: %w", err)
	}
	return dir, nil
}

// giveTo changes the owner of directories, which keep their mode 0700. It is an error if the new
// owner cannot reach them.
func giveTo(uid, gid int, dirs ...string) error {
	for _, dir := range dirs {
		if err := os.Chown(dir, uid, gid); err != nil {
			return fmt.Errorf("give a directory to the user that the handler runs as: %w", err)
		}
		for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
			info, err := os.Stat(parent)
			if err != nil {
				return err
			}
			if !enters(uid, gid, info) {
				return fmt.Errorf("the user that the handler runs as, %d:%d, cannot enter %s "+
					"and so cannot reach %s: allow it (chmod o+x %s), "+
					"or move the daemon's directories elsewhere", uid, gid, parent, dir, parent)
			}
			if parent == filepath.Dir(parent) {
				break
			}
		}
	}
	return nil
}

// enters reports whether the mode of a directory lets a user through, who is in one group only.
func enters(uid, gid int, dir os.FileInfo) bool {
	owner, ok := dir.Sys().(*syscall.Stat_t)
	switch mode := dir.Mode().Perm(); {
	case uid == 0 || !ok:
		return true
	case int(owner.Uid) == uid:
		return mode&0o100 != 0
	case int(owner.Gid) == gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// removeDirs removes directories with everything that a process left in them.
func removeDirs(dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if err := shim.RemoveAll(dir); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}
