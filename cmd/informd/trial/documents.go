package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/informd/informd/config"
	kubeyaml "sigs.k8s.io/yaml"
)

// document is one value of a file of YAML or JSON.
type document struct {
	file string
	line int // on which it begins
	json json.RawMessage
}

// mistake returns an error with the document's place.
func (d document) mistake(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", d.file, d.line, fmt.Errorf(format, args...))
}

var errMore = errors.New("more follows this YAML document: put a line with --- between documents")

// readDocuments reads a file, or standard input if path is "-": JSON values one after the other, or
// YAML documents. It returns the elements of lists, and of objects of kind List, one by one.
func readDocuments(path string, stdin io.Reader) ([]document, error) {
	var text []byte
	var err error
	if path == "-" {
		path = "standard input"
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	var all []document
	if start := bytes.TrimSpace(text); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		if all, err = readJSON(path, text); err != nil && len(all) == 0 {
			// It may be YAML that begins with a brace.
			if documents, yamlErr := readYAML(path, text); yamlErr == nil || errors.Is(yamlErr, errMore) {
				all, err = documents, yamlErr
			}
		}
	} else {
		all, err = readYAML(path, text)
	}
	if err != nil {
		return nil, err
	}
	var out []document
	for _, d := range all {
		out = append(out, d.elements()...)
	}
	return out, nil
}

// readJSON also returns the values before an error.
func readJSON(path string, text []byte) (all []document, err error) {
	lineAt := func(offset int64) int {
		return 1 + bytes.Count(text[:min(max(0, int(offset)), len(text))], []byte("\n"))
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			offset := decoder.InputOffset()
			if e, ok := errors.AsType[*json.SyntaxError](err); ok {
				offset = max(offset, e.Offset-1)
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				offset = int64(len(text))
			}
			return all, fmt.Errorf("%s:%d: %w", path, lineAt(offset), err)
		}
		line := lineAt(decoder.InputOffset() - int64(len(value)))
		all = append(all, document{path, line, value})
	}
}

// readYAML reads documents that lines with --- separate.
func readYAML(path string, text []byte) (all []document, err error) {
	var part []byte
	first, line := 0, 0 // of the part: its first line with something in it; and the current line
	end := func() error {
		if first == 0 {
			part = bytes.Repeat([]byte("\n"), line)
			return nil
		}
		// As kubectl reads it: a date is a string.
		value, err := kubeyaml.YAMLToJSON(part)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err) // it names the line
		}
		if config.HasMore(part) {
			return fmt.Errorf("%s:%d: %w", path, first, errMore)
		}
		if string(value) != "null" {
			all = append(all, document{path, first, value})
		}
		first, part = 0, bytes.Repeat([]byte("\n"), line) // so that lines have their numbers
		return nil
	}
	for content := range bytes.Lines(text) {
		line++
		if bytes.HasPrefix(content, []byte("---")) {
			if err := end(); err != nil {
				return nil, err
			}
			continue
		}
		bare := bytes.TrimSpace(content)
		if first == 0 && len(bare) > 0 && bare[0] != '#' {
			first = line
		}
		part = append(part, content...)
	}
	return all, end()
}

// elements returns the elements of a list, or of an object of kind List, and otherwise d itself.
func (d document) elements() (out []document) {
	var items []json.RawMessage
	if json.Unmarshal(d.json, &items) != nil {
		var list struct {
			Kind  string
			Items []json.RawMessage
		}
		if json.Unmarshal(d.json, &list) != nil || list.Items == nil || list.Kind != "List" {
			return []document{d}
		}
		items = list.Items
	}
	rest, line := d.json, d.line
	for _, item := range items {
		if at := bytes.Index(rest, item); at >= 0 { // JSON keeps its lines, YAML does not
			line += bytes.Count(rest[:at], []byte("\n"))
			rest = rest[at:]
		}
		out = append(out, document{d.file, line, item})
	}
	return out
}
