package rule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// MaxPayload bounds the JSON of a payload, in bytes.
const MaxPayload = 8 << 20

// Payload makes JSON of a change: of one expression's value, of a mapping of payloads, or of a list of them. Exactly
// one of the three is set; an empty mapping or list is not nil.
type Payload struct {
	Program *expr.Program
	Fields  []Field
	Items   []*Payload
}

// Field is one member of a mapping, in the order in which it was written.
type Field struct {
	Name  string
	Value *Payload
}

// ReadsChange tells whether the payload depends on more than the object's new state: on old or event, which merging
// changes.
func (p *Payload) ReadsChange() bool {
	reads := false
	p.each(func(program *expr.Program) { reads = reads || program.ReadsOld() || program.ReadsEvent() })
	return reads
}

func (p *Payload) addPaths(to *object.Paths) {
	p.each(func(program *expr.Program) { to.Union(program.Paths()) })
}

func (p *Payload) each(visit func(*expr.Program)) {
	if p == nil {
		return
	}
	if p.Program != nil {
		visit(p.Program)
	}
	for _, f := range p.Fields {
		f.Value.each(visit)
	}
	for _, item := range p.Items {
		item.each(visit)
	}
}

// render is the payload as compact JSON; of no payload it is nil.
func (p *Payload) render(env *expr.Env) (json.RawMessage, error) {
	if p == nil {
		return nil, nil
	}
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := p.write(buf, env); err != nil {
		return nil, err
	}
	return bytes.Clone(buf.Bytes()), nil
}

func (p *Payload) write(buf *buffer, env *expr.Env) error {
	switch {
	case p.Program != nil:
		value, err := p.Program.Value(env)
		if err != nil {
			return err
		}
		if err := buf.writeValue(value); err != nil {
			return err
		}
	case p.Fields != nil:
		buf.WriteByte('{')
		for i, f := range p.Fields {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := buf.writeString(f.Name); err != nil {
				return err
			}
			buf.WriteByte(':')
			if err := f.Value.write(buf, env); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		buf.WriteByte('}')
	default:
		buf.WriteByte('[')
		for i, item := range p.Items {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := item.write(buf, env); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		buf.WriteByte(']')
	}
	if buf.Len() > MaxPayload {
		return fmt.Errorf("payload exceeds %d MiB", MaxPayload>>20)
	}
	return nil
}

// buffer is where payloads are written before their size is known.
type buffer struct {
	bytes.Buffer
	encoder *json.Encoder // to the buffer
}

var buffers = sync.Pool{New: func() any {
	b := new(buffer)
	b.encoder = json.NewEncoder(b)
	b.encoder.SetEscapeHTML(false)
	return b
}}

// release gives the buffer to the next payload, unless this one was unusually large.
func (b *buffer) release() {
	if b.Cap() <= 64<<10 {
		b.Reset()
		buffers.Put(b)
	}
}

func (b *buffer) writeValue(value any) error {
	if s, ok := value.(string); ok {
		return b.writeString(s)
	}
	return b.encode(value)
}

// writeString writes what most strings are, plain ASCII, as it is.
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

func (b *buffer) encode(value any) error {
	if err := b.encoder.Encode(value); err != nil {
		return fmt.Errorf("cannot be written as JSON")
	}
	b.Truncate(b.Len() - 1) // Encode ends with a newline
	return nil
}
