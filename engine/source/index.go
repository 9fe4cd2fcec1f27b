package source

import (
	"errors"
	"fmt"
	"maps"
	"slices"

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
	return i.cache.addIndexers(indexers)
}

// addIndexers adds indexes: see Informer.AddIndexers.
func (c *objectCache) addIndexers(indexers map[string]Index) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	indexes, added := slices.Clip(c.indexes), []int(nil)
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
	for _, g := range []*generation{c.present.Load(), c.coming} {
		if g == nil {
			continue
		}
		if err := g.store.AddIndexers(c.reader.indexers(indexes, added...)); err != nil {
			return fmt.Errorf("add indexers: %w", err)
		}
	}
	c.indexes = indexes
	c.reshape()
	return nil
}

// indexers returns some of the indexes, by their numbers, in client-go's form for one store. It
// returns a new map, which client-go may change.
func (r *entryReader) indexers(all []namedIndex, numbers ...int) cache.Indexers {
	out := cache.Indexers{}
	for _, n := range numbers {
		out[all[n].name] = r.indexFunc(n, all[n])
	}
	return out
}

// allIndexers returns all indexes as indexers does. mu is held.
func (c *objectCache) allIndexers() cache.Indexers {
	numbers := make([]int, len(c.indexes))
	for n := range numbers {
		numbers[n] = n
	}
	return c.reader.indexers(c.indexes, numbers...)
}

// indexFunc returns the n-th index in client-go's form for one store. client-go calls it with an
// object that leaves the store or enters it, while it has the store's lock for writing. The
// function also keeps the objects in order, in a set per value, and answers a question with the
// set.
func (r *entryReader) indexFunc(n int, index namedIndex) cache.IndexFunc {
	sets := ordered{}
	return func(obj any) ([]string, error) {
		switch obj := obj.(type) {
		case *entry:
			values := r.valuesOf(obj, n, index)
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
func (r *entryReader) valuesOf(e *entry, n int, index namedIndex) []string {
	if n >= len(e.values) {
		e.values = append(e.values, make([][]string, n+1-len(e.values))...)
	}
	if e.values[n] == nil {
		e.values[n] = r.evaluate(index, e.Decode(index.Paths))
	}
	return e.values[n]
}

// allIndexes returns the indexes by their names.
func (c *objectCache) allIndexes() map[string]Index {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]Index, len(c.indexes))
	for _, index := range c.indexes {
		all[index.name] = index.Index
	}
	return all
}

// byIndex returns the objects that have the value, as they are now, sorted by key. It takes no time
// for the objects themselves. An unknown index is an error.
func (c *objectCache) byIndex(name, value string) (object.Bucket, error) {
	// client-go calls the index function with the store's lock, so that no change is half done.
	q := &question{value: value}
	_, err := c.store().Index(name, q)
	return q.answer, err
}

// valuesIn returns the values that the index has, sorted.
func (c *objectCache) valuesIn(index string) []string {
	values := c.store().ListIndexFuncValues(index)
	slices.Sort(values)
	return values
}
