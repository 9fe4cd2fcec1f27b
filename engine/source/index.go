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
	indexes, added := slices.Clip(i.indexes), []int(nil)
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
		added = append(added, len(indexes))
		indexes = append(indexes, index)
	}
	for _, g := range []*generation{i.present.Load(), i.coming} {
		if g == nil {
			continue
		}
		if err := g.store.AddIndexers(i.indexers(indexes, added...)); err != nil {
			return fmt.Errorf("add indexers: %w", err)
		}
	}
	i.indexes = indexes
	i.shape.Store(newShape(i.keep, i.view, i.indexes))
	return nil
}

// indexers returns some of the indexes, by their numbers, in client-go's form for one store. It
// returns a new map, which client-go may change.
func (i *Informer) indexers(all []namedIndex, numbers ...int) cache.Indexers {
	out := cache.Indexers{}
	for _, n := range numbers {
		out[all[n].name] = i.indexFunc(n, all[n])
	}
	return out
}

// allIndexers returns all indexes as indexers does. It is called with i.indexing held.
func (i *Informer) allIndexers() cache.Indexers {
	numbers := make([]int, len(i.indexes))
	for n := range numbers {
		numbers[n] = n
	}
	return i.indexers(i.indexes, numbers...)
}

// indexFunc returns the n-th index in client-go's form for one store. client-go calls it with an
// object that leaves the store or enters it, while it has the store's lock for writing. The
// function also keeps the objects in order, in a set per value, and answers a question with the set.
func (i *Informer) indexFunc(n int, index namedIndex) cache.IndexFunc {
	sets := ordered{}
	return func(obj any) ([]string, error) {
		switch obj := obj.(type) {
		case *entry:
			values := i.valuesOf(obj, n, index)
			sets.turn(values, obj.Object)
			return values, nil
		case *question:
			obj.answer = sets.under(obj.value)
		}
		return nil, nil
	}
}

// valuesOf returns the values that an entry has in the n-th index. They never change: the store
// must find an entry again where it has put it. The values of an entry that is older than the index
// are computed once. client-go has the store's lock for writing.
func (i *Informer) valuesOf(e *entry, n int, index namedIndex) []string {
	if n >= len(e.values) {
		e.values = append(e.values, make([][]string, n+1-len(e.values))...)
	}
	if e.values[n] == nil {
		e.values[n] = i.evaluate(index, e.Decode(index.Paths))
	}
	return e.values[n]
}

// evaluate returns the values of an index, which are never nil. It recovers from a panic, because
// client-go ends the process if an index function fails.
func (i *Informer) evaluate(index namedIndex, tree any) (values []string) {
	defer func() {
		if p := recover(); p != nil {
			values = []string{}
			i.counts.indexPanics.Add(1)
			i.parent.sayer.warn(i.log, "an index function has panicked", i.sel.String()+index.name,
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

// ByIndex returns the objects that have the value, as they are now, sorted by key. It takes no time
// for the objects themselves. An unknown index is an error.
func (i *Informer) ByIndex(name, value string) (object.Bucket, error) {
	// client-go calls the index function with the store's lock, so that no change is half done.
	q := &question{value: value}
	_, err := i.store().Index(name, q)
	return q.answer, err
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
