package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/informd/informd/engine/schema"
)

// maxFile bounds the bytes of one file.
const maxFile = 64 << 20

// Read reads schemas from files, and from folders recursively: CustomResourceDefinitions, and
// documents of OpenAPI v3, as informd schemas save writes them. It skips what is neither. The error
// lists everything that cannot be read, and each path with no schema in it.
func Read(paths []string) (*schema.Catalog, error) {
	like, _ := BuiltIn()
	catalog := schema.NewCatalog(like)
	var failures []error
	for _, path := range paths {
		before := catalog.Len()
		var failed bool
		for _, file := range filesAt(path, &failures) {
			if err := addFile(catalog, file); err != nil {
				failures, failed = append(failures, err), true
			}
		}
		if catalog.Len() == before && !failed && len(failures) == 0 {
			failures = append(failures, fmt.Errorf("%s has no schemas: informd reads "+
				"CustomResourceDefinitions, and what informd schemas save writes", path))
		}
	}
	return catalog, errors.Join(failures...)
}

// filesAt returns the files at a path that may hold schemas.
func filesAt(path string, failures *[]error) (files []string) {
	info, err := os.Stat(path)
	switch {
	case path == "":
		*failures = append(*failures, errors.New("--schemas is empty: name a file, or a folder"))
		return nil
	case errors.Is(err, fs.ErrNotExist):
		*failures = append(*failures, fmt.Errorf("%s does not exist", path))
		return nil
	case err != nil:
		*failures = append(*failures, err)
		return nil
	case info.Mode().IsRegular():
		return []string{path}
	case !info.IsDir():
		*failures = append(*failures, fmt.Errorf("%s is not a regular file", path))
		return nil
	}
	_ = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			*failures = append(*failures, err)
		case at != path && strings.HasPrefix(name, "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() {
				files = append(files, at)
			}
		}
		return nil
	})
	return files
}

// addFile adds what is in a file to a catalog.
func addFile(catalog *schema.Catalog, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxFile:
		return fmt.Errorf("%s is larger than %d MiB", path, maxFile>>20)
	}
	for i, document := range documents(text) {
		if err := addDocument(catalog, document); err != nil {
			return fmt.Errorf("%s: document %d: %w", path, i+1, err)
		}
	}
	return nil
}

// documents cuts a file at its lines with ---.
func documents(text []byte) (all [][]byte) {
	var document []byte
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("---")) {
			all, document = append(all, document), nil
			line = bytes.TrimPrefix(line, []byte("---"))
		}
		document = append(document, line...)
	}
	return append(all, document)
}

// addDocument adds a document to a catalog if it has schemas. It parses only what may have some.
func addDocument(catalog *schema.Catalog, text []byte) error {
	if !bytes.Contains(text, []byte("CustomResourceDefinition")) &&
		!bytes.Contains(text, []byte("openAPIV3Schema")) && !bytes.Contains(text, []byte("components")) {
		return nil
	}
	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Components json.RawMessage   `json:"components"`
		Items      []json.RawMessage `json:"items"`
	}
	asJSON, err := toJSON(text)
	if err != nil {
		return fmt.Errorf("it is not YAML: %w", err)
	}
	if err := json.Unmarshal(asJSON, &head); err != nil {
		return nil // something else
	}
	switch {
	case schema.IsDefinition(head.APIVersion, head.Kind):
		return catalog.AddDefinition(asJSON)
	case strings.HasSuffix(head.Kind, "List"):
		for _, item := range head.Items {
			if err := addDocument(catalog, item); err != nil {
				return err
			}
		}
	case head.Components != nil && head.Kind == "":
		return catalog.AddOpenAPI(asJSON)
	}
	return nil
}

// toJSON converts YAML. It leaves JSON as it is.
func toJSON(text []byte) ([]byte, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		return text, nil
	}
	return yaml.YAMLToJSON(text)
}
