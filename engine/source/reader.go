package source

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/object/scan"
)

// entryReader makes the entries of one selection. It makes them from JSON: one pass over the text
// yields the identity, the kept parts, the values of the indexes and the decoded tree for the
// consumer. It also makes them from saved objects. It counts and logs objects and index functions
// that are at fault.
//
// Any number of goroutines may use an entryReader without a lock. objectCache replaces the shape as
// a whole, so they see the one before or the one after.
type entryReader struct {
	selection Selection
	counts    *counts
	sayer     *sayer
	log       *slog.Logger // set before the informer runs

	shape atomic.Pointer[shape]  // never nil; objectCache replaces it
	kind  atomic.Pointer[string] // JSON of the objects' kind; nil until the generation has one
}

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
	shape := r.shape.Load()
	return r.read(s, shape, shape.parser)
}

// item reads an item of a list with that type, as entry does. The API server omits the type from
// items of its own types.
func (r *entryReader) item(s *scan.Scanner, apiVersion, kind string) (*entry, error) {
	shape := r.shape.Load()
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
			e.values[n] = r.evaluate(index, tree.Value())
		}
	}
	return e, nil
}

// evaluate returns the values of an index, which are never nil. It recovers from a panic, because
// client-go ends the process if an index function fails.
func (r *entryReader) evaluate(index namedIndex, tree any) (values []string) {
	defer func() {
		if p := recover(); p != nil {
			values = []string{}
			r.counts.indexPanics.Add(1)
			r.sayer.warn(r.log, "an index function has panicked", r.selection.String()+index.name,
				"index", index.name, "panic", fmt.Sprintf("%T", p))
		}
	}()
	if values = index.Values(tree); len(values) == 0 {
		return []string{}
	}
	for n, value := range values {
		values[n] = strings.Clone(value) // a substring would keep a long text in memory
	}
	return values
}

// unreadable counts an unreadable object, and logs it without its content.
func (r *entryReader) unreadable(e *entry) {
	r.counts.unreadable.Add(1)
	if e.arrival.isForeign {
		r.sayer.warn(r.log, "the API server sent an object that informd did not ask for: "+
			"leaving it out", r.selection.String()+" foreign",
			"key", e.Object.Key(), "error", e.arrival.unfit)
		return
	}
	r.sayer.warn(r.log, "an object cannot be read: treating it as absent", r.selection.String(),
		"key", e.Object.Key(), "error", e.arrival.unfit)
}
