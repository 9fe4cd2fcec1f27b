package object

import (
	"bytes"
	"fmt"

	"github.com/informd/informd/engine/object/scan"
)

// MaxDepth is how deep an object may nest, as for the API server and apimachinery. No schema comes near.
const MaxDepth = 10_000

// Parser makes Objects of JSON. It is immutable and safe for concurrent use.
type Parser struct{ keep, view *Paths }

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

var everything = pathsOf()

// UnfitError is valid JSON that no Object can be made of: it is none, its identity is of the wrong type, it nests deeper
// than [MaxDepth] or has a number out of float64's range, which apimachinery's decoder refuses too.
type UnfitError struct {
	Reason   string
	Identity *Object // what could be told of the identity, and nothing else; nil if nothing could
}

func (e *UnfitError) Error() string { return e.Reason }

// Parse reads the object at s in one pass, and leaves s behind it. It keeps nothing of the text; the Object's is compact
// and UTF-8. view is what Decode would give for the view's paths on all of the object; its strings share memory, so that
// one of them that is kept for long should be cloned.
//
// Errors are the Scanner's, after which its position is anywhere, and [*UnfitError], when it is behind the value.
func (p *Parser) Parse(s *scan.Scanner) (o *Object, view any, err error) {
	kind, err := s.Kind()
	if err != nil {
		return nil, nil, err
	}
	s.Record()
	w := walker{s: s}
	view, err = w.value(p.keep, p.view, atRoot)
	text := s.Recorded()
	if err != nil {
		return nil, nil, err
	}
	unfit := w.id.unfit()
	switch {
	case kind != '{':
		unfit = "not a JSON object"
	case s.Deepest() > MaxDepth:
		unfit = fmt.Sprintf("nests deeper than %d", MaxDepth)
	case s.OutOfRange():
		unfit = "a number is out of range"
	}
	if unfit != "" {
		return nil, nil, &UnfitError{Reason: unfit, Identity: w.id.alone()}
	}
	o = w.id.object()
	o.content.Store(&content{bytes: bytes.Clone(text)})
	return o, view, nil
}

// FromJSON makes an Object of the JSON of one, which it does not keep. It refuses what is not a valid JSON object, nests
// deeper than [MaxDepth], or has an identity of the wrong type. A missing identity is left empty.
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
