package main

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

// loadPlan reads the manifests at paths and compiles them. Every mistake in any of them is reported at once, as
// config.Mistakes.
func loadPlan(paths []string) (*config.Config, *plan.Plan, error) {
	files, err := readManifests(paths)
	if err != nil {
		return nil, nil, err
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
// a dot. A file that is given twice is read once.
func readManifests(paths []string) ([]config.File, error) {
	var files []config.File
	var failures []error
	seen := make(map[string]bool)
	read := func(path string) error {
		if seen[path] {
			return nil
		}
		seen[path] = true
		if len(files) >= maxManifestFiles {
			return fmt.Errorf("more than %d manifest files", maxManifestFiles)
		}
		data, err := readManifest(path)
		if err != nil {
			return err
		}
		files = append(files, config.File{Path: path, Data: data})
		return nil
	}
	for _, path := range paths {
		path = filepath.Clean(path)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			failures = append(failures, err)
		case !info.IsDir():
			failures = append(failures, read(path))
		default:
			failures = append(failures, walk(path, read))
		}
	}
	return files, errors.Join(failures...)
}

// walk reads the manifests below a folder. It follows links to files, of which mounted ConfigMaps consist, and not to
// folders, which could lead in circles.
func walk(folder string, read func(path string) error) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
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
		return read(path)
	})
}

func readManifest(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}
