package object

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/informd/informd/engine/object/scan"
)

// maxDepth is how deep an object may nest, as for the API server and apimachinery. No schema comes near.
const maxDepth = 10_000

// Parser makes Objects of JSON. It is immutable and safe for concurrent use.
type Parser struct {
	keep, view       *Paths
	apiVersion, kind string // of objects that have neither; may be empty
}

// NewParser makes a Parser of Objects that keep what keep covers and their identity, nil for everything, and that decodes
// view on the way. metadata.managedFields is never kept, nor in the view.
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

// Typed is a Parser that gives objects which have neither kind nor apiVersion these two: API servers leave them out in the
// items of lists.
func (p *Parser) Typed(apiVersion, kind string) *Parser {
	return &Parser{keep: p.keep, view: p.view, apiVersion: apiVersion, kind: kind}
}

var everything = pathsOf()

// UnfitError is valid JSON that no Object can be made of: it is none, its identity is of the wrong type, it nests deeper
// than [maxDepth] or has a number out of float64's range, which apimachinery's decoder refuses too.
type UnfitError struct {
	Reason   string
	Identity *Object // what could be told of the identity, and nothing else; nil if nothing could
}

func (e *UnfitError) Error() string { return e.Reason }

// Parse reads the object at s in one pass, and leaves s behind it. It keeps nothing of the text; the Object's is compact
// and UTF-8. view is what Decode would give for the view's paths on all of the object. Without an object there is no view.
//
// Errors are the Scanner's, after which its position is anywhere, and [*UnfitError], when it is behind the value.
func (p *Parser) Parse(s *scan.Scanner) (o *Object, view *Tree, err error) {
	kind, err := s.Kind()
	if err != nil {
		return nil, nil, err
	}
	s.Record()
	view = trees.Get().(*Tree)
	w := walker{s: s, branches: &view.branches}
	view.value, err = w.value(p.keep, p.view, atRoot)
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

// withType gives an object's text its type, and the view, as far as they have use for it.
func (p *Parser) withType(text []byte, view *Tree) []byte {
	typed := []byte{'{'}
	for _, field := range [...]struct{ name, value string }{{"apiVersion", p.apiVersion}, {"kind", p.kind}} {
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

// FromJSON makes an Object of the JSON of one, which it does not keep. It refuses what is not a valid JSON object, nests
// deeper than [maxDepth], or has an identity of the wrong type. A missing identity is left empty.
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
