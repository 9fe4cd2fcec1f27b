// Package manifests reads manifests from files and folders, and compiles them.
package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

// Bounds on what is read as configuration. config refuses files that are larger than a mebibyte; reading a byte more
// than that is enough for it to say so.
const (
	maxManifestBytes = 1<<20 + 1
	maxManifestFiles = 10_000
)

// Load reads the manifests at paths and compiles them. Every mistake in any of them is reported at once, as
// config.Mistakes.
func Load(paths []string) (*config.Config, *plan.Plan, error) {
	files, err := readManifests(paths)
	if err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		return nil, nil, fmt.Errorf("no manifest: there is no *.yaml or *.yml file in %s", strings.Join(paths, ", "))
	}
	cfg, mistakes := config.Parse(files)
	compiled, more := plan.Compile(cfg)
	mistakes = append(mistakes, more...)
	mistakes.Sort()
	if len(mistakes) > 0 {
		return cfg, nil, mistakes
	}
	return cfg, compiled, nil
}

// readManifests reads files, and folders recursively: *.yaml and *.yml in order of path, without names that start with
// a dot. A file that is given twice, by whatever names, is read once. All that cannot be read is in the error.
func readManifests(paths []string) ([]config.File, error) {
	m := reader{seen: make(map[string]bool)}
	for _, path := range paths {
		path = filepath.Clean(path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			m.walk(path)
		} else {
			_ = m.read(path) // it is in m.failures
		}
	}
	return m.files, errors.Join(m.failures...)
}

// reader is what has been read up to now.
type reader struct {
	files    []config.File
	failures []error
	seen     map[string]bool // files, by identity
}

// walk reads the manifests below a folder. It follows links to files, of which mounted ConfigMaps consist, and not to
// folders, which could lead in circles.
func (m *reader) walk(folder string) {
	if target, err := filepath.EvalSymlinks(folder); err == nil && target != folder {
		folder += string(filepath.Separator) // WalkDir does not follow a link otherwise
	}
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			m.failures = append(m.failures, unreadable(path, err)) // and on with the next
			return nil
		case path != folder && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".yml":
			return nil
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil
		}
		return m.read(path)
	})
}

// read returns an error if there is no point in reading on.
func (m *reader) read(path string) error {
	if id := identity(path); m.seen[id] {
		return nil
	} else {
		m.seen[id] = true
	}
	if len(m.files)+len(m.failures) >= maxManifestFiles {
		err := fmt.Errorf("there are more than %d manifest files", maxManifestFiles)
		m.failures = append(m.failures, err)
		return err
	}
	data, err := readManifest(path)
	if err != nil {
		m.failures = append(m.failures, err)
		return nil
	}
	m.files = append(m.files, config.File{Path: path, Data: data})
	return nil
}

func readManifest(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

// identity is the same for all names of one file.
func identity(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path
}

// unreadable says why a manifest cannot be read, without the system call's name.
func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if info, linkErr := os.Lstat(path); linkErr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link to a file that does not exist", path)
		}
		return fmt.Errorf("%s does not exist", path)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s cannot be read: %w", path, err)
}
