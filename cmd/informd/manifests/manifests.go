// Package manifests reads manifests from files and folders, and compiles them to a plan.
package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

// Bounds on a configuration. Package config refuses files larger than 1 MiB: it gets one byte more,
// so that it can tell.
const (
	maxManifestBytes = 1<<20 + 1
	maxManifestFiles = 10_000
)

// Load reads the manifests at paths, which are files or folders, and compiles them. If manifests
// have mistakes, Load returns all of them at once as config.Mistakes, together with the
// configuration as far as it could be read. It leaves files of tests out of the folders.
func Load(paths []string) (*config.Config, *plan.Plan, error) {
	return load(paths, false, known{give: "-f"})
}

// LoadWithTests is Load with the files of tests in the folders. It asks kinds for the resources that
// the manifests do not say: those of --schemas.
func LoadWithTests(paths []string, kinds config.Kinds) (*config.Config, *plan.Plan, error) {
	return load(paths, true, known{kinds: kinds, give: "-f or --schemas"})
}

// LoadForCluster is Load for who can ask the cluster, or does without the resources of actions. Kinds
// whose resources the manifests do not say stay unnamed.
func LoadForCluster(paths []string) (*config.Config, *plan.Plan, error) {
	return load(paths, false, known{})
}

func load(paths []string, tests bool, k known) (*config.Config, *plan.Plan, error) {
	files, err := readStill(paths, tests)
	if err != nil {
		return nil, nil, err
	}
	return compileFiles(files, paths, k)
}

// known is what is known of kinds beside what the manifests say.
type known struct {
	kinds config.Kinds // nil: nothing
	// give says how to give schemas of the kinds that are not known, which are mistakes. It is empty
	// if they are none.
	give string
}

// Read returns the files of the manifests at paths, as Load reads them.
func Read(paths []string) ([]config.File, error) { return readStill(paths, false) }

// ReadWithTests is Read with the files of tests in the folders.
func ReadWithTests(paths []string) ([]config.File, error) { return readStill(paths, true) }

// A mounted ConfigMap changes at one moment, while its files may be being read: some would be those
// before the change, and some those after it. Then they are read again.
const (
	maxReads  = 20
	readPause = 20 * time.Millisecond
)

// readStill reads the files when none of them changes meanwhile.
func readStill(paths []string, tests bool) (files []config.File, err error) {
	for range maxReads {
		before := Fingerprint(paths)
		r := reader{seen: make(map[string]bool), tests: tests}
		files, err = r.readAll(paths)
		if Fingerprint(paths) == before {
			return files, err
		}
		time.Sleep(readPause)
	}
	return nil, errors.New("the manifests change while informd reads them: " +
		"try again when they stay the same")
}

// CompileForCluster is LoadForCluster for files that have been read.
func CompileForCluster(files []config.File) (*config.Config, *plan.Plan, error) {
	return compileFiles(files, nil, known{})
}

// compileFiles compiles files that have been read. paths are for errors.
func compileFiles(files []config.File, paths []string, k known) (*config.Config, *plan.Plan, error) {
	if len(files) == 0 {
		return nil, nil, fmt.Errorf("no manifest: there is no *.yaml or *.yml file in %s",
			strings.Join(paths, ", "))
	}
	cfg, compiled, mistakes := netted(files, k)
	mistakes.Sort()
	if len(mistakes) > 0 {
		return cfg, nil, mistakes
	}
	return cfg, compiled, nil
}

// readAll reads files, and folders recursively: *.yaml and *.yml in order of path, except names that
// start with a dot. It reads a file once, under however many names it is given. The error lists
// everything that cannot be read.
func (m *reader) readAll(paths []string) ([]config.File, error) {
	for _, path := range paths {
		if path == "-" || strings.Contains(path, "://") {
			m.failures = append(m.failures,
				fmt.Errorf("-f %s: informd reads manifests from files and folders only", path))
			continue
		}
		path = filepath.Clean(path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			m.walk(path)
		} else {
			_ = m.read(path) // read has added the error to m.failures
		}
	}
	return m.files, errors.Join(m.failures...)
}

// reader collects manifest files.
type reader struct {
	files    []config.File
	failures []error
	seen     map[string]bool // by identity
	tests    bool            // also read files of tests that are in folders
	// found is called with each file in place of reading it; nil reads.
	found func(path string)
	print strings.Builder
}

// walk reads the manifests below a folder. It follows links to files, because a mounted ConfigMap
// consists of them. It does not follow links to folders, which could lead in circles.
func (m *reader) walk(folder string) {
	if target, err := filepath.EvalSymlinks(folder); err == nil && target != folder {
		folder += string(filepath.Separator) // WalkDir does not follow a link otherwise
	}
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			m.failures = append(m.failures, unreadable(path, err)) // go on with the next one
			return nil
		case path != folder && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".yml":
			return nil
		case config.IsTestFile(path) && !m.tests:
			m.leaveOut(path)
			return nil
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil
		}
		return m.read(path)
	})
}

// leaveOut reports a file of tests that has other manifests, because they would be left out too. It
// does not report one that cannot be read: the daemon does without tests.
func (m *reader) leaveOut(path string) {
	if m.found != nil {
		return
	}
	data, err := readManifest(path)
	if err != nil {
		return
	}
	if kind := config.KindBesideTests(data); kind != "" {
		m.failures = append(m.failures, fmt.Errorf("%s has a %s, and its name is that of a file of "+
			"tests, which informd leaves out: move the %s into a file with another name",
			path, kind, kind))
	}
}

// read reads one file. It adds all errors to failures, and returns only one that ends the walk.
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
	if m.found != nil {
		m.found(path)
		return nil
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

// identity returns the same string for all names of one file.
func identity(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path
}

// unreadable returns an error for a manifest that cannot be read, without the name of the system
// call.
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

// Fingerprint returns a text that differs if Load might read something else at the paths: a file
// has come, gone or changed, by its name, its size or the time of its change.
func Fingerprint(paths []string) string {
	r := reader{seen: make(map[string]bool)}
	r.found = func(path string) {
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(&r.print, "%s: %v\n", path, err)
			return
		}
		fmt.Fprintf(&r.print, "%s is %s, %d, %d\n", path, identity(path), info.Size(),
			info.ModTime().UnixNano())
	}
	_, _ = r.readAll(paths) // what cannot be read is in the text
	return r.print.String()
}
