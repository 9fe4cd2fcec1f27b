package rule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/expr"
)

// Template makes JSON: of a constant, of one program's value, of a mapping of templates, or of a list of them. Exactly one
// of the four is set; an empty mapping or list is not nil. A member or an element whose program gives nil is left out.
type Template struct {
	JSON    json.RawMessage // valid and compact
	Program *expr.Program   // compiled by expr.CompileTemplate
	Fields  []TemplateField
	Items   []*Template
}

// TemplateField is one member of a mapping, in the order in which it was written.
type TemplateField struct {
	Name     string
	Value    *Template
	Required bool // nil is an error
}

// Constant is the template of a string.
func Constant(s string) *Template {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if buf.writeString(s) != nil { // no string fails
		return &Template{JSON: json.RawMessage(`""`)}
	}
	return &Template{JSON: bytes.Clone(buf.Bytes())}
}

// Require makes it an error that the member at the end of a path is nil. Where the template has no such member it does nothing.
func (t *Template) Require(path ...string) {
	for i, name := range path {
		if t == nil {
			return
		}
		at := slices.IndexFunc(t.Fields, func(f TemplateField) bool { return f.Name == name })
		if at < 0 {
			return
		}
		if i == len(path)-1 {
			t.Fields[at].Required = true
		}
		t = t.Fields[at].Value
	}
}

func (t *Template) each(visit func(*expr.Program)) {
	if t == nil {
		return
	}
	if t.Program != nil {
		visit(t.Program)
	}
	for _, f := range t.Fields {
		f.Value.each(visit)
	}
	for _, item := range t.Items {
		item.each(visit)
	}
}

// write appends the JSON, at most limit bytes in all. wrote says that there is some: nil is not written.
func (t *Template) write(buf *buffer, env *expr.Env, limit int) (wrote bool, err error) {
	switch {
	case t.Program != nil:
		value, err := t.Program.Value(env)
		if value == nil || err != nil {
			return false, err
		}
		if err := buf.writeValue(value); err != nil {
			return false, err
		}
	case t.Fields != nil:
		if err := t.writeFields(buf, env, limit); err != nil {
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

func (t *Template) writeFields(buf *buffer, env *expr.Env, limit int) error {
	open := byte('{')
	for _, f := range t.Fields {
		before := buf.Len()
		buf.WriteByte(open)
		if err := buf.writeString(f.Name); err != nil {
			return err
		}
		buf.WriteByte(':')
		switch wrote, err := f.Value.write(buf, env, limit); {
		case err != nil:
			return at(f.Name, err)
		case wrote:
			open = ','
		case f.Required:
			return at(f.Name, errNil)
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
