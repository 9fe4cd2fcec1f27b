package source

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/engine/object"
)

// IndexFunc gives the values under which an object is found. It depends on nothing but the object. One that panics is
// counted, and gives none.
type IndexFunc func(*object.Object) []string

// AddIndexers adds indexes, before Run or at any time during it; what is there is indexed at once. A name that is there
// stays as it is: the caller sees to it that one name is one function. (A Source's own names are mapped onto the
// informer's by NewSource, so an expression's text is a good name here.) Indexes cannot be removed.
func (i *Informer) AddIndexers(indexers map[string]IndexFunc) error {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	added := cache.Indexers{}
	for name, f := range indexers {
		switch {
		case name == "":
			return errors.New("add indexers: an index without a name")
		case f == nil:
			return fmt.Errorf("add indexers: index %q has no function", name)
		}
		if i.indexes[name] == nil {
			added[name] = i.total(name, f)
		}
	}
	if err := i.store().AddIndexers(added); err != nil {
		return fmt.Errorf("add indexers: %w", err)
	}
	for name := range added {
		i.indexes[name] = indexers[name]
	}
	return nil
}

// indexers, with i.indexing, are all indexes as client-go wants them: a map of its own, which it changes.
func (i *Informer) indexers() cache.Indexers {
	all := cache.Indexers{}
	for name, f := range i.indexes {
		all[name] = i.total(name, f)
	}
	return all
}

// total makes a function that never fails: client-go ends the process if one does, with the store's lock held.
func (i *Informer) total(name string, f IndexFunc) cache.IndexFunc {
	return func(obj any) (values []string, _ error) {
		o, ok := obj.(*object.Object)
		if !ok {
			return nil, nil
		}
		defer func() {
			if p := recover(); p != nil {
				values = nil
				i.counts.indexPanics.Add(1)
				i.parent.sayer.warn(i.log, "an index function has panicked", i.sel.String()+name, "index", name, "panic", fmt.Sprintf("%T", p))
			}
		}()
		return f(o), nil
	}
}

// GetIndexers are the functions by their names.
func (i *Informer) GetIndexers() map[string]IndexFunc {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	return maps.Clone(i.indexes)
}

func (i *Informer) store() cache.Indexer { return i.present.Load().store }

// Index is the objects that share a value of the index with o, sorted by key. The error is that of an unknown index.
func (i *Informer) Index(name string, o *object.Object) ([]*object.Object, error) {
	return sorted(i.store().Index(name, o))
}

// ByIndex is the objects that have the value, sorted by key. The error is that of an unknown index.
func (i *Informer) ByIndex(name, value string) ([]*object.Object, error) {
	return sorted(i.store().ByIndex(name, value))
}

// IndexKeys is the keys of the objects that have the value, sorted. The error is that of an unknown index.
func (i *Informer) IndexKeys(name, value string) ([]string, error) {
	return i.store().IndexKeys(name, value)
}

// ListIndexFuncValues is the values that the index has, sorted.
func (i *Informer) ListIndexFuncValues(name string) []string {
	values := i.store().ListIndexFuncValues(name)
	slices.Sort(values)
	return values
}

// Get is the object, if there is one. namespace is empty for a resource that has none.
func (i *Informer) Get(namespace, name string) (*object.Object, bool) {
	found, _, _ := i.store().GetByKey(cache.NewObjectName(namespace, name).String())
	o, ok := found.(*object.Object)
	return o, ok
}

// List is the objects of a namespace, or of all if it is empty, that the selector matches; in no order. A nil selector
// matches all.
func (i *Informer) List(namespace string, selector labels.Selector) []*object.Object {
	if selector == nil {
		selector = labels.Everything()
	}
	var out []*object.Object
	for _, found := range i.store().List() {
		o, ok := found.(*object.Object)
		if !ok || namespace != "" && o.Namespace() != namespace {
			continue
		}
		if selector.Empty() || selector.Matches(labels.Set(o.Labels())) {
			out = append(out, o)
		}
	}
	return out
}

// sorted takes objects out of what client-go's indexer returns.
func sorted(found []any, err error) ([]*object.Object, error) {
	if err != nil {
		return nil, err
	}
	out := make([]*object.Object, 0, len(found))
	for _, f := range found {
		if o, ok := f.(*object.Object); ok { // an index function that is not a function of the object leaves nils behind
			out = append(out, o)
		}
	}
	slices.SortFunc(out, byKey)
	return out, nil
}

func byKey(a, b *object.Object) int {
	if c := strings.Compare(a.Namespace(), b.Namespace()); c != 0 {
		return c
	}
	return strings.Compare(a.Name(), b.Name())
}
