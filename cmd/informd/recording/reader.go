package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/informd/informd/engine/object/scan"
)

// maxDocument bounds one document of a recording, in bytes. By default etcd accepts objects of 1.5
// MiB.
const maxDocument = 64 << 20

// reader cuts a recording into documents: JSON objects that stand one after the other, on one line
// each or on many. It returns the elements of lists one by one, and so holds only one object at a
// time. It uncompresses what is compressed.
type reader struct {
	name string // of the file, for errors
	in   *bufio.Reader
	line int    // of the next byte, from 1
	text []byte // of the document
	max  int    // bytes of a document
	list list   // what is around the next document

	isCut bool // the recording ends within a document, on cutAt
	cutAt int
}

// list says whether a document is an element of a list.
type list uint8

const (
	notInList  list = iota
	inItems         // of a Kubernetes list: {"items":[…]}
	inBrackets      // of [ … ]
)

// document is one document of a recording.
type document struct {
	file string
	at   int // the line on which it begins
	text []byte
}

func newReader(name string, from io.Reader) (*reader, error) {
	in := bufio.NewReaderSize(from, 256<<10)
	if magic, err := in.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		in = bufio.NewReaderSize(unzipped, 256<<10)
	}
	return &reader{name: name, in: in, line: 1, max: maxDocument}, nil
}

// mistake returns an error with the document's place.
func (d document) mistake(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", d.file, d.at, fmt.Errorf(format, args...))
}

// errCut means that the recording ends within a document.
var errCut = errors.New("the recording ends here")

// next returns the next document. Its text holds until the next call. The error is io.EOF at the
// end, also if the recording ends within a document: then isCut is set.
func (r *reader) next() (document, error) {
	d, err := r.cut()
	if errors.Is(err, errCut) {
		r.isCut, r.cutAt = true, d.at
		err = io.EOF
	}
	return d, err
}

func (r *reader) cut() (document, error) {
	for {
		b, err := r.skip()
		d := document{file: r.name, at: r.line}
		switch {
		case errors.Is(err, errCut) && r.list == notInList:
			return d, io.EOF // only the end of the compression is missing
		case errors.Is(err, io.EOF) && r.list != notInList:
			return d, errCut
		case err != nil:
			return d, err
		case b == '{':
			d.text, err = r.object()
			switch {
			case errors.Is(err, errItems):
				r.list = inItems
				continue
			case errors.Is(err, io.EOF):
				err = errCut
			case err != nil && !errors.Is(err, errCut):
				err = d.mistake("%w", err)
			}
			return d, err
		case b == '[' && r.list == notInList:
			r.list = inBrackets
		case b == ',' && r.list != notInList:
		case b == ']' && r.list == inBrackets:
			r.list = notInList
		case b == ']' && r.list == inItems:
			r.list = notInList
			r.text = append(r.text[:0], '{')
			if _, err := r.rest(false); err != nil { // what else the list has
				return d, errCut
			}
		default:
			return d, d.mistake("not JSON: want what informd record writes, or kubectl get prints "+
				"with -o json, and not %q", r.glance(b))
		}
	}
}

// glance returns what follows on the line, for an error.
func (r *reader) glance(first byte) string {
	next, _ := r.in.Peek(min(40, r.in.Buffered()))
	line, _, _ := bytes.Cut(append([]byte{first}, next...), []byte("\n"))
	return string(line)
}

// skip returns the next byte that is no white space.
func (r *reader) skip() (byte, error) {
	for {
		switch b, err := r.in.ReadByte(); {
		case err != nil:
			return 0, ended(err)
		case b == '\n':
			r.line++
		case b != ' ' && b != '\t' && b != '\r':
			return b, nil
		}
	}
}

// errItems means that an object is a list, and that its first element is next.
var errItems = errors.New("a list")

// object returns the text of an object whose brace was read.
func (r *reader) object() ([]byte, error) {
	r.text = append(r.text[:0], '{')
	return r.rest(r.list == notInList)
}

// rest reads on to the end of an object. mayList says that it may be a list.
func (r *reader) rest(mayList bool) ([]byte, error) {
	depth := 1
	inString, isEscaped := false, false
	began := 0 // where in the text the last string began
	for depth > 0 {
		chunk, err := r.chunk()
		if err != nil {
			return nil, err
		}
		n := 0
		for n < len(chunk) && depth > 0 {
			if inString && !isEscaped {
				n += plain(chunk[n:])
				if n == len(chunk) {
					break
				}
			}
			b := chunk[n]
			n++
			switch {
			case isEscaped:
				isEscaped = false
			case inString && b == '\\':
				isEscaped = true
			case b == '"':
				if inString = !inString; inString {
					began = len(r.text) + n - 1
				}
			case inString:
			case b == '{':
				depth++
			case b == '[':
				if mayList && depth == 1 {
					r.take(chunk[:n])
					if r.follows(began, `"items"`) {
						return nil, errItems
					}
					chunk, n = chunk[n:], 0
				}
				depth++
			case b == '}' || b == ']':
				depth--
			}
		}
		r.take(chunk[:n])
		if len(r.text) > r.max {
			return nil, fmt.Errorf("it has more than %d MiB", r.max>>20)
		}
	}
	return r.text, nil
}

// plain returns how many bytes of a string come before a quote or an escape.
func plain(text []byte) int {
	if quote := bytes.IndexByte(text, '"'); quote >= 0 {
		text = text[:quote]
	}
	if escape := bytes.IndexByte(text, '\\'); escape >= 0 {
		return escape
	}
	return len(text)
}

// chunk returns what follows, as far as it is in memory. It holds until the next call of a method.
func (r *reader) chunk() ([]byte, error) {
	if _, err := r.in.Peek(1); err != nil {
		return nil, ended(err)
	}
	return r.in.Peek(r.in.Buffered())
}

// take adds the beginning of a chunk to the text, and goes on after it.
func (r *reader) take(begin []byte) {
	r.line += bytes.Count(begin, []byte("\n"))
	r.text = append(r.text, begin...)
	_, _ = r.in.Discard(len(begin)) // they are in memory
}

// ended returns errCut where a compressed recording was cut.
func ended(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// follows reports whether the value that the text ends with is that of a field.
func (r *reader) follows(began int, field string) bool {
	name, ok := bytes.CutPrefix(r.text[began:], []byte(field))
	if !ok {
		return false
	}
	return string(bytes.Join(bytes.Fields(name), nil)) == ":["
}

// kinds are the types of lines with an object.
var kinds = []string{typeAdded, typeModified, typeDeleted, typeError, typeBookmark}

// typeObject is the type of a document that is an object by itself.
const typeObject = ""

// fields are those of a document that replay looks at, as JSON; nil if it does not have them.
type fields struct {
	kind, metadata                               []byte // of an object
	changeType, time, resource, object, selected []byte // of a line
}

// fields reads the document once. The results are parts of its text.
func (d document) fields() (f fields, err error) {
	s := scan.New(d.text)
	if err := s.OpenObject(); err != nil {
		return f, err
	}
	for first := true; ; first = false {
		key, more, err := s.NextKey(first)
		if err != nil {
			return f, err
		}
		if !more {
			return f, s.End()
		}
		name := string(key)
		value, err := s.Skip()
		if err != nil {
			return f, err
		}
		switch name {
		case `"kind"`:
			f.kind = value
		case `"metadata"`:
			f.metadata = value
		case `"type"`:
			f.changeType = value
		case `"time"`:
			f.time = value
		case `"resource"`:
			f.resource = value
		case `"object"`:
			f.object = value
		case `"selections"`:
			f.selected = value
		}
	}
}

// read returns the line that a document is.
func (d document) read() (l line, err error) {
	f, err := d.fields()
	if err != nil {
		if e, ok := errors.AsType[*scan.SyntaxError](err); ok {
			d.at += bytes.Count(d.text[:min(e.Offset, len(d.text))], []byte("\n"))
		}
		return l, d.mistake("not JSON: %w; mend the line, or remove it", err)
	}
	var kind string
	if f.changeType != nil {
		_ = json.Unmarshal(f.changeType, &kind) // what is no text is no type
	}
	switch {
	case f.object != nil && slices.Contains(kinds, kind):
		l = line{Type: kind, Object: bytes.Clone(f.object)}
	case f.kind == nil && (kind == typeRecording || kind == typeListed):
		l = line{Type: kind}
	case f.kind != nil && f.metadata != nil:
		return line{Type: typeObject, Object: bytes.Clone(d.text)}, nil
	default:
		return l, d.mistake("neither a change nor an object: want what informd record writes, " +
			"or kubectl get prints with -o json")
	}
	for _, field := range []struct {
		name string
		text []byte
		to   any
		want string
	}{
		{"time", f.time, &l.Time, "a time as RFC 3339, such as 2026-01-02T03:04:05Z"},
		{"resource", f.resource, &l.Resource, "a text, such as apps/v1/deployments"},
		{"selections", f.selected, &l.Selections, "a list of what was recorded"},
	} {
		if field.text != nil && json.Unmarshal(field.text, field.to) != nil {
			return l, d.mistake("its %s is %.80s: want %s", field.name, field.text, field.want)
		}
	}
	return l, nil
}
