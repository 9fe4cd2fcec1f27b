package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// decode returns the text of a file, or what prevents reading it at all.
func decode(in File) (string, *Mistake) {
	data := in.Data
	whole := func(format string, args ...any) *Mistake {
		return &Mistake{Position: Position{File: in.Path}, Message: fmt.Sprintf(format, args...)}
	}
	if len(data) > maxFile {
		return string(data[:maxFile]), whole(
			"the file is larger than %d bytes, the most that informd reads: split it", maxFile)
	}
	text := string(data)
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return text, whole("the file is UTF-16: save it as UTF-8")
	}
	text = strings.TrimPrefix(text, "\ufeff")
	for i, r := range text {
		var what string
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			what = fmt.Sprintf("byte 0x%02x is not UTF-8 text", text[i])
		case r == 0x85 || r == 0x2028 || r == 0x2029: // YAML 1.1 ends a line there, editors do not
			what = fmt.Sprintf("line separator %U is not allowed", r)
		case r == 0xfeff:
			what = fmt.Sprintf("byte order mark %U is not allowed within a file", r)
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0,
			r == 0xfffe, r == 0xffff:
			what = fmt.Sprintf("control character %U is not allowed", r)
		default:
			continue
		}
		// Index only the valid text before it; the snippet goes a little further.
		m := newFile(in.Path, text[:i]).mistake(i, what)
		return text, &m
	}
	return text, nil
}

// part is the text of one document in a file.
type part struct {
	file       *file
	start, end int
}

func (d part) text() string { return d.file.text[d.start:d.end] }

// split cuts a file at its document markers, so that each document is parsed by itself. A marker at
// the start of a line counts even inside a scalar. Comments and directives belong to the document
// after them.
func split(f *file) (parts []part) {
	start, prologue, empty := 0, true, true
	cut := func(at int) {
		if !empty {
			parts = append(parts, part{f, start, at})
		}
		start, prologue, empty = at, true, true
	}
	for i, at := range f.lines {
		lineStart, lineEnd := f.bounds(i)
		line := f.text[lineStart:lineEnd]
		next := len(f.text)
		if i+1 < len(f.lines) {
			next = f.lines[i+1]
		}
		content := strings.TrimLeft(line, " \t")
		switch {
		case isMarker(line, "---"):
			if !prologue {
				cut(at)
			}
			prologue = false
			content = strings.TrimLeft(line[3:], " \t")
			empty = empty && (content == "" || content[0] == '#')
		case isMarker(line, "..."):
			cut(next)
		case content == "" || content[0] == '#':
		case line[0] == '%' && prologue:
			empty = false
		default:
			prologue, empty = false, false
		}
	}
	cut(len(f.text))
	return parts
}

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && (rest == "" || isBlank(rest[0]))
}

// parse returns the root of the document, or nil if the document is empty. Its nodes count lines
// from the start of the file.
func (d part) parse() (root *yaml.Node, bad *Mistake) {
	document, err := decodeYAML(strings.NewReader(d.text()))
	if err != nil {
		m := d.syntaxError()
		return nil, &m
	}
	if document == nil || len(document.Content) == 0 {
		return nil, nil
	}
	root = document.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" && root.Anchor == "" {
		return nil, nil
	}
	shift(root, d.file.line(d.start))
	return root, nil
}

// shift moves a tree of nodes down by some lines. The parser bounds the tree's depth.
func shift(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		shift(child, lines)
	}
}

// decodeYAML returns the only document in r, or nil at its end. The parser panics on some input;
// decodeYAML turns that into an error.
func decodeYAML(r io.Reader) (document *yaml.Node, err error) {
	defer func() {
		if v := recover(); v != nil {
			document, err = nil, fmt.Errorf("yaml: cannot be parsed: %v", v)
		}
	}()
	decoder := yaml.NewDecoder(r)
	document = new(yaml.Node)
	if err := decoder.Decode(document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("yaml: a second document begins here without ---")
		}
		return nil, err
	}
	return document, nil
}

// HasMore reports whether something follows the first YAML document of text: a second value without
// a --- line before it, or one after a line with three dots. It returns false if the first document
// itself is not YAML.
func HasMore(text []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	return decoder.Decode(&document) == nil && !errors.Is(decoder.Decode(&document), io.EOF)
}
