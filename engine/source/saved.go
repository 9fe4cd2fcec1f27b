package source

import (
	"context"
	processors "runtime"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/object"
)

// Saved is what a consumer recorded in another run.
type Saved struct {
	// Objects are the objects that the consumer knew.
	Objects []*object.Object
	// ResourceVersion is the consumer's position. If it is empty, the informer must compare the
	// objects with a list.
	ResourceVersion string
	// HasFollowed says that the consumer had such a position. Then it has known all objects of the
	// server, and new ones are Added and not Synced. It follows from a ResourceVersion.
	HasFollowed bool
	// Partial says that the objects lack parts that the informer is to keep now. A list completes
	// them, and each object comes back or is gone: see Step.Saved.
	Partial bool
	// Follow makes the informer report the server's changes since ResourceVersion before a list
	// completes the parts. So the consumer also learns of objects that came and went meanwhile. Use
	// it only if the consumer records no more of an object than it passes here, because the
	// position moves while some parts are incomplete.
	Follow bool
}

// follows reports whether the informer can follow the server from the saved resourceVersion.
func (s *Saved) follows() bool { return s.ResourceVersion != "" && (!s.Partial || s.Follow) }

// restored makes entries for saved objects, on all processors. packer packs objects that are plain,
// unless they are parts: those are small, and soon whole ones replace them. If ctx ends, some
// entries are missing.
func (r *entryReader) restored(
	ctx context.Context, saved *Saved, packer *object.Packer,
) []runtime.Object {
	const chunk = 1024
	objects, indexes := saved.Objects, r.shape.Load().indexes
	entries := make([]runtime.Object, len(objects))
	paths := new(object.Paths)
	for _, index := range indexes {
		paths.Union(index.Paths)
	}
	var working sync.WaitGroup
	var taken atomic.Int64
	for range min(processors.GOMAXPROCS(0), len(objects)/chunk+1) {
		working.Go(func() {
			decoder := object.NewDecoder(paths)
			for {
				end := int(taken.Add(chunk))
				from := end - chunk
				if from >= len(objects) || ctx.Err() != nil {
					return
				}
				for n, o := range objects[from:min(end, len(objects))] {
					entries[from+n] = r.restore(o, indexes, decoder)
					if !saved.Partial {
						packer.Pack(o)
					}
				}
				decoder.Forget()
			}
		})
	}
	working.Wait()
	return entries
}

// restore makes the entry of a saved object. decoder decodes what the indexes read.
func (r *entryReader) restore(
	o *object.Object, indexes []namedIndex, decoder *object.Decoder,
) *entry {
	e := &entry{Object: o}
	if len(indexes) > 0 {
		e.values = make([][]string, len(indexes))
	}
	for n, index := range indexes {
		e.values[n] = r.evaluate(index, decoder.Tree(o))
	}
	return e
}
