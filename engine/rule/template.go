package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/informd/informd/engine/expr"
)

// Template makes JSON: a constant, the value of a program, a mapping of templates or a list of
// them. Exactly one of JSON, Program, Members and Items is set; an empty mapping or list is not
// nil. A Template is immutable once it is compiled, and safe for concurrent use.
type Template struct {
	JSON    json.RawMessage // valid and compact
	Program *expr.Program   // compiled by expr.Compile or expr.CompileTemplate
	Members []Member        // in the order of the manifest
	Items   []*Template
	// KeepNil makes a Program's nil null. Otherwise nil leaves out the member or element.
	KeepNil bool
	// Must says what a Program's value has to be. nil may stand anywhere.
	Must Must
}

// Must says what the API server takes at some place of an object.
type Must uint8

// These are the values of Must.
const (
	BeAnything Must = iota
	BeString
	BeStrings // a mapping of strings
)

// check returns what is wrong with a value, or nil.
func (must Must) check(v any) error {
	switch m, isMap := v.(map[string]any); {
	case must == BeAnything || v == nil:
	case must == BeString:
		return notString(v)
	case !isMap:
		return fmt.Errorf("it must be a mapping of strings, and is %s", kindOf(v))
	default:
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if err := notString(m[name]); err != nil {
				return at(name, err)
			}
		}
	}
	return nil
}

// notString returns an error if v is neither a string nor nil.
func notString(v any) error {
	how := "string"
	switch v.(type) {
	case nil, string:
		return nil
	case []any, map[string]any:
		how = "toJSON"
	}
	return fmt.Errorf("it must be a string, and is %s: write ${%s(…)}", kindOf(v), how)
}

// kindOf says what a value is in JSON.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "a number"
}

// Member is one member of a mapping.
type Member struct {
	Name     string
	Value    *Template
	Required bool // nil is an error
}

// Constant returns the template of a string.
func Constant(s string) *Template {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if buf.writeString(s) != nil { // no string fails
		return &Template{JSON: json.RawMessage(`""`)}
	}
	return &Template{JSON: bytes.Clone(buf.Bytes())}
}

// Require makes nil an error for the member at the end of path. It does nothing if the template
// has no such member. Only whoever compiles the template may call it.
func (t *Template) Require(path ...string) {
	for i, name := range path {
		if t == nil {
			return
		}
		at := slices.IndexFunc(t.Members, func(m Member) bool { return m.Name == name })
		if at < 0 {
			return
		}
		if i == len(path)-1 {
			t.Members[at].Required = true
		}
		t = t.Members[at].Value
	}
}

// KeepNils makes every nil within the template null. Only whoever compiles the template may call
// it.
func (t *Template) KeepNils() {
	keep := func(in *Template) {
		in.KeepNil = true
		in.KeepNils()
	}
	for _, m := range t.Members {
		keep(m.Value)
	}
	for _, item := range t.Items {
		keep(item)
	}
}

// ReadsChange reports whether the template depends on more than the object's new state: on old or
// event, which merging changes. A nil Template does not.
func (t *Template) ReadsChange() (reads bool) {
	t.Each(func(p *expr.Program) { reads = reads || p.ReadsOld() || p.ReadsEvent() })
	return reads
}

// Each calls visit with every program of the template. A nil Template has none.
func (t *Template) Each(visit func(*expr.Program)) {
	if t == nil {
		return
	}
	if t.Program != nil {
		visit(t.Program)
	}
	for _, m := range t.Members {
		m.Value.Each(visit)
	}
	for _, item := range t.Items {
		item.Each(visit)
	}
}

// Render returns the template's JSON, or nil if the template as a whole is left out. JSON of more
// than limit bytes fails with errLarge. Errors say where in the template they happened.
func (t *Template) Render(env *expr.Env, limit int) (json.RawMessage, error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if wrote, err := t.write(buf, env, limit); err != nil || !wrote {
		return nil, err
	}
	return bytes.Clone(buf.Bytes()), nil
}

var (
	errNil   = errors.New("it is nil")
	errLarge = errors.New("too large")
)

// write appends the template's JSON to buf. It reports whether there was any.
func (t *Template) write(buf *buffer, env *expr.Env, limit int) (wrote bool, err error) {
	switch {
	case t.Program != nil:
		v, err := t.Program.Value(env)
		if err != nil || v == nil && !t.KeepNil {
			return false, err
		}
		if err := t.Must.check(v); err != nil {
			return false, err
		}
		if err := buf.writeValue(v); err != nil {
			return false, err
		}
	case t.Members != nil:
		if err := t.writeMembers(buf, env, limit); err != nil {
			return false, err
		}
	case t.Items != nil:
		if err := t.writeItems(buf, env, limit); err != nil {
			return false, err
		}
	default:
		buf.Write(t.JSON)
	}
	if buf.Len() > limit {
		return false, errLarge
	}
	return true, nil
}

func (t *Template) writeMembers(buf *buffer, env *expr.Env, limit int) error {
	open := byte('{')
	for _, m := range t.Members {
		before := buf.Len()
		buf.WriteByte(open)
		if err := buf.writeString(m.Name); err != nil {
			return err
		}
		buf.WriteByte(':')
		switch wrote, err := m.Value.write(buf, env, limit); {
		case err != nil:
			return at(m.Name, err)
		case wrote:
			open = ','
		case m.Required:
			return at(m.Name, errNil)
		default:
			buf.Truncate(before)
		}
	}
	if open == '{' {
		buf.WriteByte(open)
	}
	buf.WriteByte('}')
	return nil
}

func (t *Template) writeItems(buf *buffer, env *expr.Env, limit int) error {
	open := byte('[')
	for i, item := range t.Items {
		before := buf.Len()
		buf.WriteByte(open)
		switch wrote, err := item.write(buf, env, limit); {
		case err != nil:
			return at(fmt.Sprintf("[%d]", i), err)
		case wrote:
			open = ','
		default:
			buf.Truncate(before)
		}
	}
	if open == '[' {
		buf.WriteByte(open)
	}
	buf.WriteByte(']')
	return nil
}

// placedError says where in a template an error happened.
type placedError struct {
	place string // as spec.containers[0].image
	err   error
}

func (p *placedError) Error() string { return p.place + ": " + p.err.Error() }
func (p *placedError) Unwrap() error { return p.err }

// at puts place before the place of err, if it has one.
func at(place string, err error) error {
	var in *placedError
	if !errors.As(err, &in) {
		return &placedError{place, err}
	}
	if !strings.HasPrefix(in.place, "[") {
		place += "."
	}
	return &placedError{place + in.place, in.err}
}

// buffer takes JSON whose size is not known yet.
type buffer struct {
	bytes.Buffer
	encoder *json.Encoder // writes to the buffer
}

var buffers = sync.Pool{New: func() any {
	b := new(buffer)
	b.encoder = json.NewEncoder(b)
	b.encoder.SetEscapeHTML(false)
	return b
}}

// maxPooled bounds the buffers that the pool keeps, in bytes.
const maxPooled = 64 << 10

// release returns the buffer to the pool, unless it has grown unusually large.
func (b *buffer) release() {
	if b.Cap() <= maxPooled {
		b.Reset()
		buffers.Put(b)
	}
}

func (b *buffer) writeValue(v any) error {
	if s, ok := v.(string); ok {
		return b.writeString(s)
	}
	return b.encode(v)
}

// writeString skips the encoder for plain ASCII, which most strings are.
func (b *buffer) writeString(s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return b.encode(s)
		}
	}
	b.WriteByte('"')
	b.WriteString(s)
	b.WriteByte('"')
	return nil
}

func (b *buffer) encode(v any) error {
	if err := b.encoder.Encode(v); err != nil {
		return errors.New("cannot be written as JSON") // err may quote the value
	}
	b.Truncate(b.Len() - 1) // Encode ends with a newline
	return nil
}
