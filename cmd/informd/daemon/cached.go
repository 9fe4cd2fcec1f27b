package daemon

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/host/cache"
)

// cached gives handlers access to the engine's cache.
type cached struct {
	names  func() []string // of the sources, sorted
	engine *engine.Engine
}

var _ cache.Sources = (*cached)(nil)

// read sets the engine. It must be called before any handler runs.
func (c *cached) read(names func() []string, eng *engine.Engine) { c.names, c.engine = names, eng }

// Names implements cache.Sources.
func (c *cached) Names() []string { return c.names() }

// Open implements cache.Sources.
func (c *cached) Open(ctx context.Context, name string) (cache.Source, error) {
	view, ok := c.engine.Source(name)
	if !ok {
		return nil, cache.ErrNoSource
	}
	if err := view.WaitForCacheSync(ctx); err != nil {
		return nil, err
	}
	return cachedSource{view}, nil
}

// cachedSource gives handlers access to a source.
type cachedSource struct{ view *source.Source }

// Get implements cache.Source.
func (s cachedSource) Get(namespace, name string) ([]byte, bool) {
	if o, ok := s.view.Get(namespace, name); ok {
		return o.JSON(), true
	}
	return nil, false
}

// List implements cache.Source.
func (s cachedSource) List(namespace, selector string) (cache.Objects, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	found := s.view.List(namespace, parsed)
	slices.SortFunc(found, object.Compare)
	return listed(object.BucketOf(found)), nil
}

// Indexes implements cache.Source.
func (s cachedSource) Indexes() []string { return slices.Sorted(maps.Keys(s.view.GetIndexers())) }

// ByIndex implements cache.Source.
func (s cachedSource) ByIndex(index, value string) (cache.Objects, bool) {
	found, err := s.view.ByIndex(index, value) // its only error is an unknown index
	return listed(found), err == nil
}

// IndexValues implements cache.Source.
func (s cachedSource) IndexValues(index string) ([]string, bool) {
	if _, ok := s.view.GetIndexers()[index]; !ok {
		return nil, false
	}
	return s.view.ListIndexFuncValues(index), true
}

// cachedObjects is a list of objects for handlers.
type cachedObjects struct {
	parts  [][]*object.Object // none is empty
	starts []int              // the index at which each part starts
	n      int
}

// listed makes a list without a copy of the objects.
func listed(b object.Bucket) cachedObjects {
	o := cachedObjects{parts: b.Parts()}
	o.starts = make([]int, len(o.parts))
	for i, part := range o.parts {
		o.starts[i] = o.n
		o.n += len(part)
	}
	return o
}

// Len implements cache.Objects.
func (o cachedObjects) Len() int { return o.n }

// Key implements cache.Objects.
func (o cachedObjects) Key(i int) string { return o.at(i).Key() }

// JSON implements cache.Objects.
func (o cachedObjects) JSON(i int) []byte { return o.at(i).JSON() }

func (o cachedObjects) at(i int) *object.Object {
	part, ok := slices.BinarySearch(o.starts, i)
	if !ok {
		part--
	}
	return o.parts[part][i-o.starts[part]]
}
