package source

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/engine/object"
)

// objectCache holds the objects of one selection: the stores of the generations, their indexes, and
// which parts of objects they keep. The reader's shape follows from the indexes, from the parts to
// keep and from the consumer's view, so objectCache alone replaces it.
//
// Reading takes no lock of objectCache. mu is held while indexes are added, and while a generation
// begins or becomes present. It comes before feed.mu and before any lock of client-go.
type objectCache struct {
	reader  *entryReader
	feed    *feed
	present atomic.Pointer[generation] // never nil; the generation whose store is read

	mu      sync.Mutex    // guards the fields below, and the replacement of reader.shape
	coming  *generation   // has begun and is not present yet; or nil
	view    *object.Paths // nil decodes nothing
	indexes []namedIndex
	keeping keeping
}

func newObjectCache(r *entryReader, f *feed) *objectCache {
	c := &objectCache{reader: r, feed: f, keeping: keeping{widened: make(chan struct{})}}
	c.reshape()
	c.empty()
	return c
}

// reshape makes the reader follow a change. mu is held, or nobody else has c.
func (c *objectCache) reshape() {
	c.reader.shape.Store(newShape(c.keeping.wanted, c.view, c.indexes))
}

// keep sets which parts of objects that come from now on the cache keeps, and the consumer's view.
func (c *objectCache) keep(keep, view *object.Paths) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeping.wanted, c.keeping.present, c.view = keep, keep, view
	c.reshape()
	c.feed.setView(view)
}

// setView sets the consumer's view for objects that come from now on.
func (c *objectCache) setView(view *object.Paths) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view = view
	c.reshape()
}

// empty empties the cache. It presents a generation that never runs and has all indexes.
func (c *objectCache) empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coming = nil
	c.complete()
	c.present.Store(&generation{
		store: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, c.allIndexers()),
	})
}

// begin gives a new generation its store, which lw fills. Readers use the present generation until
// the new store has its list.
func (c *objectCache) begin(g *generation, lw cache.ListerWatcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.wire.widened = c.keeping.widened
	if c.keeping.isWidening {
		c.keeping.isWidening, g.wire.exact = false, position(g.wire.floor)
	}
	c.reader.kind.Store(nil)
	g.shared = cache.NewSharedIndexInformerWithOptions(lw, &entry{}, cache.SharedIndexInformerOptions{
		Indexers: c.allIndexers(), ObjectDescription: c.reader.selection.String(),
	})
	g.store = g.shared.GetIndexer()
	c.coming = g
}

// show makes a generation the present one, because its store has the list.
func (c *objectCache) show(g *generation) {
	if c.present.Load() == g {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.present.Store(g)
	c.coming = nil
}

func (c *objectCache) store() cache.Indexer { return c.present.Load().store }

// get returns the object, if the cache has it. namespace is empty for a resource without
// namespaces.
func (c *objectCache) get(namespace, name string) (*object.Object, bool) {
	found, _, _ := c.store().GetByKey(cache.NewObjectName(namespace, name).String())
	if e, ok := found.(*entry); ok {
		return e.Object, true
	}
	return nil, false
}

// list returns the objects of a namespace that the selector matches, in no order. An empty
// namespace means all namespaces, and a nil selector matches all objects.
func (c *objectCache) list(namespace string, selector labels.Selector) []*object.Object {
	if selector == nil {
		selector = labels.Everything()
	}
	var out []*object.Object
	for _, found := range c.store().List() {
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
