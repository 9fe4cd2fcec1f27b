package source

import (
	"cmp"
	"errors"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/object/scan"
)

// entryReader makes entries from JSON. One pass over the text yields the identity, the kept parts,
// the values of the indexes and the decoded tree for the consumer.
type entryReader struct{ informer *Informer }

// shape says how an informer reads objects. It is immutable: a new index or view makes a new shape.
type shape struct {
	parser  *object.Parser
	view    *object.Paths
	indexes []namedIndex
}

type namedIndex struct {
	name string
	Index
}

func newShape(keep, view *object.Paths, indexes []namedIndex) *shape {
	all := new(object.Paths)
	if view != nil {
		all.Union(view)
	}
	for _, index := range indexes {
		all.Union(index.Paths)
	}
	return &shape{parser: object.NewParser(keep, all), view: view, indexes: indexes}
}

// entry reads the object at s, and leaves s after it. An object that is valid JSON but unusable is
// no error: see arrival.unfit.
func (r *entryReader) entry(s *scan.Scanner) (*entry, error) {
	shape := r.informer.shape.Load()
	return r.read(s, shape, shape.parser)
}

// item reads an item of a list with that type, as entry does. The API server omits the type from
// items of its own types.
func (r *entryReader) item(s *scan.Scanner, apiVersion, kind string) (*entry, error) {
	shape := r.informer.shape.Load()
	return r.read(s, shape, shape.parser.Typed(apiVersion, kind))
}

func (r *entryReader) read(s *scan.Scanner, shape *shape, parser *object.Parser) (*entry, error) {
	o, tree, err := parser.Parse(s)
	if err == nil && o.Name() == "" {
		err = &object.UnfitError{Reason: "it has no name", Identity: o}
	}
	if unfit, ok := errors.AsType[*object.UnfitError](err); ok {
		o := cmp.Or(unfit.Identity, new(object.Object))
		return &entry{Object: o, arrival: &arrival{unfit: unfit}}, nil
	}
	if err != nil {
		return nil, err
	}
	e := &entry{Object: o, arrival: &arrival{tree: tree, view: shape.view}}
	if len(shape.indexes) > 0 {
		e.values = make([][]string, len(shape.indexes))
		for n, index := range shape.indexes {
			e.values[n] = r.informer.evaluate(index, tree.Value())
		}
	}
	return e, nil
}
