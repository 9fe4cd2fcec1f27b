package source

import (
	"context"

	"github.com/informd/informd/engine/object"
)

// Kept returns what the cache keeps of every object beside the identity; nil for whole objects.
func (i *Informer) Kept() *object.Paths {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	return i.kept
}

// Widen makes an informer that runs also keep what more lists; nil for whole objects. The informer
// lists again. Widen returns when the cache has what it is to keep of every object. The consumer is
// told nothing of objects that have not changed.
//
// If ctx ends first, Widen returns the reason. The cache is then completed by and by, and Kept says
// when it is. Calls must not overlap.
func (i *Informer) Widen(ctx context.Context, more *object.Paths) error {
	i.indexing.Lock()
	keep := i.keep
	if keep != nil && more != nil {
		keep = new(object.Paths)
		keep.Union(i.keep)
		keep.Union(more)
	} else {
		keep = nil
	}
	i.keep = keep
	i.feed.setNarrow(true)
	i.shape.Store(newShape(i.keep, i.view, i.indexes))
	complete := make(chan struct{})
	i.completing = complete
	close(i.widened)
	i.widened = make(chan struct{})
	if i.coming == nil && i.present.Load().shared == nil {
		i.complete() // it has no objects
	}
	i.indexing.Unlock()
	select {
	case <-complete:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// complete notes that the cache has what it is to keep of every object. i.indexing is held.
func (i *Informer) complete() {
	i.kept = i.keep
	i.feed.setNarrow(false)
	if i.completing != nil {
		close(i.completing)
		i.completing = nil
	}
}

// completed is called when a generation has its list. It completes the cache unless Widen was called
// since the generation began.
func (g *generation) completed() {
	i := g.informer
	i.indexing.Lock()
	defer i.indexing.Unlock()
	if g.wire.widened == i.widened {
		i.complete()
	}
}
