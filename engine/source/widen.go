package source

import (
	"context"
	"errors"
	"slices"

	"github.com/informd/informd/engine/object"
)

// Kept returns what the cache keeps of every object beside the identity; nil for whole objects.
func (i *Informer) Kept() *object.Paths {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	return i.kept
}

// Widen makes an informer that runs also keep what more lists; nil for whole objects. The informer
// lists again, as of the resourceVersion that it has reached, so that it misses no change. Only if the
// server has forgotten that, it lists the newest state. Widen returns when the cache has all fields
// to keep of every object. The consumer gets no delta for objects that have not changed.
//
// If ctx ends first, Widen returns the reason. The cache is then completed by and by, and Kept says
// when it is; another call for the same waits for that. Calls must not overlap.
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
	if !isSame(keep, i.keep) {
		i.widen(keep)
	}
	complete := i.completing
	if i.coming == nil && i.present.Load().shared == nil {
		i.complete() // it has no objects
	}
	i.indexing.Unlock()
	if complete == nil {
		return nil
	}
	select {
	case <-complete:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isSame reports whether a and b are the same paths. nil stands for whole objects.
func isSame(a, b *object.Paths) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.List(), b.List(), slices.Equal)
}

// widen makes the informer list again, to keep what keep lists. i.indexing is held.
func (i *Informer) widen(keep *object.Paths) {
	i.keep = keep
	i.feed.setNarrow(true)
	i.shape.Store(newShape(i.keep, i.view, i.indexes))
	if i.completing == nil {
		i.completing = make(chan struct{})
	}
	close(i.widened)
	i.widened = make(chan struct{})
}

// errExact answers the reflector's first watch, which asks for all objects as they are now. A list
// can ask for them as they were when the watch before ended: the next watch goes on from there, and
// no change is missed.
var errExact = errors.New("a list at the last resourceVersion answers")

// widening notes that the generation ends because of Widen, and its watch, however short that was.
func (i *Informer) widening() {
	i.pace.forget()
	i.indexing.Lock()
	defer i.indexing.Unlock()
	i.isWidening = true
}

// widens reports whether the next generation is there because of Widen.
func (i *Informer) widens() bool {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	return i.isWidening
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
