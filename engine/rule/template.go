package rule

import (
	"encoding/json"
	"fmt"

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
