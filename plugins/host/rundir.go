package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxRunDir leaves room below a directory for the socket that go-plugin makes, plugin-dir<number>/plugin<number>, within
// the 108 bytes that the path of a unix socket may have.
const maxRunDir = 107 - len("/plugin-dir4294967295/plugin4294967295")

// runDir returns the directory in which socket directories are made; each of these has mode 0700.
func runDir(configured string) (string, error) {
	if configured != "" {
		dir, err := filepath.Abs(configured)
		if err != nil {
			return "", err
		}
		if len(dir) > maxRunDir {
			return "", fmt.Errorf("run directory %q is too long: the path of a socket in it must stay below 108 bytes, so at most %d are left for it", dir, maxRunDir)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("run directory: %w", err)
		}
		return dir, nil
	}
	// The first directory that is there, and short enough.
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if !filepath.IsAbs(dir) || len(dir) > maxRunDir {
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", errors.New("no run directory for sockets: neither $XDG_RUNTIME_DIR nor the directory for temporary files will do")
}

// removeSocketDir removes what go-plugin made for one process.
func removeSocketDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove socket directory: %w", err)
	}
	return nil
}
