package source

import (
	"context"
	"errors"
	"slices"

	"github.com/informd/informd/engine/object"
)

// keeping is which parts of objects a cache keeps beside the identity, and how far it is with
// completing them after Widen. nil paths stand for whole objects. objectCache.mu guards it.
type keeping struct {
	wanted  *object.Paths // what the cache is to keep of each object
	present *object.Paths // what it has of each object: as wanted, or less until it is complete
	// widened is closed by Widen, which then makes another: generations that began before have to
	// list again. completing is closed when the cache is complete; nil if nobody waits.
	widened, completing chan struct{}
	isWidening          bool // the next generation is there because of Widen
}

// widen changes what the cache is to keep.
func (k *keeping) widen(wanted *object.Paths) {
	k.wanted = wanted
	if k.completing == nil {
		k.completing = make(chan struct{})
	}
	close(k.widened)
	k.widened = make(chan struct{})
}

// complete notes that the cache has what it is to keep of every object.
func (k *keeping) complete() {
	k.present = k.wanted
	if k.completing != nil {
		close(k.completing)
		k.completing = nil
	}
}

// Kept returns what the cache keeps of every object beside the identity; nil for whole objects.
func (i *Informer) Kept() *object.Paths {
	i.cache.mu.Lock()
	defer i.cache.mu.Unlock()
	return i.cache.keeping.present
}

// Widen makes an informer that runs also keep what more lists; nil for whole objects. The informer
// lists again, as of the resourceVersion that it has reached, so that it misses no change. Only if
// the server has forgotten that, it lists the newest state. Widen returns when the cache has all
// fields to keep of every object. The consumer gets no delta for objects that have not changed.
//
// If ctx ends first, Widen returns the reason. The cache is then completed by and by, and Kept says
// when it is; another call for the same waits for that. Calls must not overlap.
func (i *Informer) Widen(ctx context.Context, more *object.Paths) error {
	complete := i.cache.widenBy(more)
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

// widenBy makes the cache also keep what more lists. The returned channel is closed when the cache
// is complete, and nil if it is complete already.
func (c *objectCache) widenBy(more *object.Paths) (complete <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := c.keeping.wanted
	if keep != nil && more != nil {
		keep = new(object.Paths)
		keep.Union(c.keeping.wanted)
		keep.Union(more)
	} else {
		keep = nil
	}
	if !isSame(keep, c.keeping.wanted) {
		c.widen(keep)
	}
	complete = c.keeping.completing
	if c.coming == nil && c.present.Load().shared == nil {
		c.complete() // it has no objects
	}
	return complete
}

// isSame reports whether a and b are the same paths. nil stands for whole objects.
func isSame(a, b *object.Paths) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.List(), b.List(), slices.Equal)
}

// widen makes the informer list again, to keep what keep lists. mu is held.
func (c *objectCache) widen(keep *object.Paths) {
	c.keeping.widen(keep)
	c.feed.setNarrow(true)
	c.reshape()
}

// errExact answers the reflector's first watch, which asks for all objects as they are now. A list
// can ask for them as they were when the watch before ended: the next watch goes on from there, and
// no change is missed.
var errExact = errors.New("a list at the last resourceVersion answers")

// endForWidening notes that the present generation ends because of Widen.
func (c *objectCache) endForWidening() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeping.isWidening = true
}

// isWidening reports whether the next generation is there because of Widen.
func (c *objectCache) isWidening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keeping.isWidening
}

// complete notes that the cache has what it is to keep of every object. mu is held.
func (c *objectCache) complete() {
	c.keeping.complete()
	c.feed.setNarrow(false)
}

// completed notes that a generation has its list. It completes the cache unless Widen was called
// since the generation began.
func (c *objectCache) completed(g *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.wire.widened == c.keeping.widened {
		c.complete()
	}
}
