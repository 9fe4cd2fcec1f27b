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

// Index computes the values under which an object is found.
type Index struct {
	// Paths are the paths that Values reads. They must not change.
	Paths *object.Paths
	// Values returns the values of an object, in a new slice. tree is the object decoded to at
	// least Paths. Values must depend on nothing else, and must neither change nor keep tree. A
	// panic is counted, and the object then has no values. Several goroutines may call Values at
	// once.
	Values func(tree any) []string
}

// AddIndexers adds indexes, before the informer runs or at any time later, and indexes the cached
// objects at once. It skips a name that exists, so the caller must use one name for one function.
// An expression's text is a good name, because NewSource maps a Source's own names to the
// informer's. Indexes cannot be removed. An index does not see parts of cached objects that Keep
// has dropped.
func (i *Informer) AddIndexers(indexers map[string]Index) error {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	indexes, added := slices.Clip(i.indexes), cache.Indexers{}
	for _, name := range slices.Sorted(maps.Keys(indexers)) {
		index := namedIndex{name, indexers[name]}
		switch {
		case name == "":
			return errors.New("add indexers: an index without a name")
		case index.Values == nil:
			return fmt.Errorf("add indexers: index %q has no function", name)
		case slices.ContainsFunc(indexes, func(n namedIndex) bool { return n.name == name }):
			continue
		}
		added[name] = i.indexFunc(len(indexes), index)
		indexes = append(indexes, index)
	}
	for _, g := range []*generation{i.present.Load(), i.coming} {
		if g == nil {
			continue
		}
		if err := g.store.AddIndexers(added); err != nil {
			return fmt.Errorf("add indexers: %w", err)
		}
	}
	i.indexes = indexes
	i.shape.Store(newShape(i.keep, i.view, i.indexes))
	return nil
}

// indexers returns all indexes in client-go's form, in a new map that client-go may change. It is
// called with i.indexing held.
func (i *Informer) indexers() cache.Indexers {
	all := cache.Indexers{}
	for n, index := range i.indexes {
		all[index.name] = i.indexFunc(n, index)
	}
	return all
}

// indexFunc returns the n-th index in client-go's form. client-go calls it for the new and the old
// state of each update, with the store's lock held. The values are computed already, except for
// objects that came before the index.
func (i *Informer) indexFunc(n int, index namedIndex) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		e, ok := obj.(*entry)
		switch {
		case !ok:
			return nil, nil
		case n < len(e.values):
			return e.values[n], nil
		}
		return i.evaluate(index, e.Decode(index.Paths)), nil
	}
}

// evaluate returns the values of an index. It recovers from a panic, because client-go ends the
// process if an index function fails.
func (i *Informer) evaluate(index namedIndex, tree any) (values []string) {
	defer func() {
		if p := recover(); p != nil {
			values = nil
			i.counts.indexPanics.Add(1)
			i.parent.sayer.warn(i.log, "an index function has panicked", i.sel.String()+index.name,
				"index", index.name, "panic", fmt.Sprintf("%T", p))
		}
	}()
	values = index.Values(tree)
	for n, value := range values {
		values[n] = strings.Clone(value) // a substring would keep a long text in memory
	}
	return values
}

// GetIndexers returns the indexes by their names.
func (i *Informer) GetIndexers() map[string]Index {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	all := make(map[string]Index, len(i.indexes))
	for _, index := range i.indexes {
		all[index.name] = index.Index
	}
	return all
}

func (i *Informer) store() cache.Indexer { return i.present.Load().store }

// ByIndex returns the objects that have the value, sorted by key. An unknown index is an error.
func (i *Informer) ByIndex(name, value string) ([]*object.Object, error) {
	return sorted(i.store().ByIndex(name, value))
}

// ListIndexFuncValues returns the values that the index has, sorted.
func (i *Informer) ListIndexFuncValues(name string) []string {
	values := i.store().ListIndexFuncValues(name)
	slices.Sort(values)
	return values
}

// Get returns the object, if the cache has it. namespace is empty for a resource without
// namespaces.
func (i *Informer) Get(namespace, name string) (*object.Object, bool) {
	found, _, _ := i.store().GetByKey(cache.NewObjectName(namespace, name).String())
	if e, ok := found.(*entry); ok {
		return e.Object, true
	}
	return nil, false
}

// List returns the objects of a namespace that the selector matches, in no order. An empty
// namespace means all namespaces, and a nil selector matches all objects.
func (i *Informer) List(namespace string, selector labels.Selector) []*object.Object {
	if selector == nil {
		selector = labels.Everything()
	}
	var out []*object.Object
	for _, found := range i.store().List() {
		e, ok := found.(*entry)
		if !ok || namespace != "" && e.Namespace() != namespace {
			continue
		}
		if selector.Empty() || selector.Matches(labels.Set(e.Labels())) {
			out = append(out, e.Object)
		}
	}
	return out
}

// sorted converts the result of client-go's indexer to objects, sorted by key.
func sorted(found []any, err error) ([]*object.Object, error) {
	if err != nil {
		return nil, err
	}
	out := make([]*object.Object, 0, len(found))
	for _, f := range found {
		if e, ok := f.(*entry); ok { // an impure index function leaves nils in the result
			out = append(out, e.Object)
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
