package object

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/informd/informd/engine/object/scan"
)

// maxDepth bounds how deep an object may nest, as the API server and apimachinery do. No schema
// comes near.
const maxDepth = 10_000

// Parser makes Objects of JSON. It is immutable and safe for concurrent use.
type Parser struct {
	keep, view       *Paths
	apiVersion, kind string // for objects that have neither; may be empty
}

// NewParser returns a Parser. Its Objects keep what keep covers, and their identity; nil keeps
// everything. It decodes view on the way. It leaves metadata.managedFields out of both.
func NewParser(keep, view *Paths) *Parser {
	p := new(Parser)
	if p.keep = &everything; keep != nil {
		p.keep = Identity()
		p.keep.Union(keep)
	}
	if !view.IsEmpty() {
		p.view = new(Paths)
		p.view.Union(view)
	}
	return p
}

// Typed returns a Parser that gives apiVersion and kind to objects that have neither: API servers
// leave them out in the items of lists.
func (p *Parser) Typed(apiVersion, kind string) *Parser {
	return &Parser{keep: p.keep, view: p.view, apiVersion: apiVersion, kind: kind}
}

var everything = pathsOf()

// UnfitError is valid JSON that cannot be an Object: it is not a JSON object, its identity has the
// wrong type, it nests deeper than 10,000, or it has a number beyond float64's range, which
// apimachinery's decoder refuses as well.
type UnfitError struct {
	Reason   string
	Identity *Object // what is known of the identity, and nothing else; nil if nothing is known
}

func (e *UnfitError) Error() string { return e.Reason }

// Parse reads the object at s in one pass, and leaves s after it. It keeps none of the text: the
// Object has its own, compact and in UTF-8. view is what Decode would return for the view's paths
// of the whole object. It is nil if there is no object.
//
// Parse returns the Scanner's errors, after which the Scanner may be anywhere, and [*UnfitError],
// with the Scanner after the value.
func (p *Parser) Parse(s *scan.Scanner) (o *Object, view *Tree, err error) {
	kind, err := s.Kind()
	if err != nil {
		return nil, nil, err
	}
	s.Record()
	view = trees.Get().(*Tree)
	w := walker{s: s, branches: &view.branches}
	view.value, err = w.value(p.keep, p.view, atRoot)
	view.types = w.types
	text := s.Recorded()
	if err != nil {
		view.Release()
		return nil, nil, err
	}
	unfit := w.id.unfit()
	switch {
	case kind != '{':
		unfit = "not a JSON object"
	case s.Deepest() > maxDepth:
		unfit = fmt.Sprintf("nests deeper than %d", maxDepth)
	case s.OutOfRange():
		unfit = "a number is out of range"
	}
	if unfit != "" {
		view.Release()
		return nil, nil, &UnfitError{Reason: unfit, Identity: w.id.alone()}
	}
	if p.kind != "" && !w.typed {
		text = p.withType(text, view)
	}
	o = w.id.object()
	o.content.Store(&content{bytes: bytes.Clone(text)})
	return o, view, nil
}

// withType adds the type to an object's text and to the view, if they use it.
func (p *Parser) withType(text []byte, view *Tree) []byte {
	typed := []byte{'{'}
	for _, field := range [...]struct{ name, value string }{
		{"apiVersion", p.apiVersion}, {"kind", p.kind},
	} {
		if covered, _ := p.keep.at([]byte(field.name)); covered != nil {
			value, _ := json.Marshal(field.value) // a string always can be
			typed = append(append(fmt.Appendf(typed, "%q:", field.name), value...), ',')
		}
		if covered, _ := p.view.at([]byte(field.name)); covered != nil {
			view.value.(map[string]any)[field.name] = field.value
		}
	}
	if len(text) == len("{}") && len(typed) > 1 {
		typed = typed[:len(typed)-1] // the comma
	}
	return append(typed, text[1:]...)
}

// FromJSON makes an Object of its JSON, which it does not keep. It refuses text that is not a valid
// JSON object, nests deeper than 10,000, or has an identity of the wrong type. Missing parts of the
// identity are empty.
func FromJSON(b []byte) (*Object, error) {
	s := scan.New(b)
	o, _, err := whole.Parse(&s)
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	return o, nil
}

var whole = NewParser(nil, nil)
