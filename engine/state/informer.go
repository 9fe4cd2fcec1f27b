package state

import (
	"sync/atomic"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// KeptMixed is [Snapshot].Kept of objects that were not all recorded with the same paths. It equals none.
const KeptMixed = "?"

// InformerOptions are what an Informer is made with.
type InformerOptions struct {
	// Packer packs the objects when they are written, in place. nil: one of the informer's own.
	Packer *object.Packer
	// Kept names the paths that objects have when they are recorded. It is what a Snapshot tells as soon as Version
	// was told a version, which says that all objects have them.
	Kept string
	// Secret has objects be written as their identity alone.
	Secret bool
}

// Informer keeps what one informer has seen: its objects, the rules that they are inside of, and the resourceVersion to go on
// from. Load is called before anything is recorded; otherwise what is on disk is not of this informer's life, and goes.
// Put, Delete and Version are called between [Store.Begin] and [Store.End], by one goroutine at a time.
type Informer struct {
	store   *Store
	id      string
	owner   owner
	opts    InformerOptions
	loaded  atomic.Bool
	dropped atomic.Bool

	unwritten map[delta.Key]objectRecord
	spare     map[delta.Key]objectRecord // emptied
	version   string
	told      bool // by Version, to others than ""
	touched   bool // version or told changed

	written informerRecord // the writer's: what is on disk; the zero one if nothing is
}

// objectRecord is what is known of one object. A nil object is gone.
type objectRecord struct {
	object *object.Object
	inside []string
	size   int64
}

// recordCost is how many bytes a record takes beside its object, about.
const recordCost = 128

// Informer gives the Informer of an id, which it makes the first time. The options count that time.
func (s *Store) Informer(id string, o InformerOptions) *Informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.informers[id]; i != nil {
		return i
	}
	if o.Packer == nil {
		o.Packer = object.NewPacker()
	}
	i := &Informer{store: s, id: id, owner: newOwner(objectPrefix, id), opts: o, unwritten: make(map[delta.Key]objectRecord)}
	s.informers[id] = i
	return i
}

// Put records the state of an object and the rules that it is inside of. The Store keeps both.
func (i *Informer) Put(o *object.Object, inside []string) {
	i.set(keyOf(o), objectRecord{o, inside, int64(o.Size()) + recordCost})
}

// Delete records that the object of a key is gone.
func (i *Informer) Delete(key delta.Key) {
	if i.store.db.Load() == nil { // nothing on disk has to go
		if was, ok := i.unwritten[key]; ok {
			delete(i.unwritten, key)
			i.store.unwritten.add(-1, -was.size)
		}
		return
	}
	i.set(key, objectRecord{size: recordCost})
}

func (i *Informer) set(key delta.Key, r objectRecord) {
	if i.store.broken.Load() || i.dropped.Load() {
		return
	}
	was, ok := i.unwritten[key]
	i.unwritten[key] = r
	if ok {
		i.store.unwritten.bytes.Add(r.size - was.size)
	} else {
		i.store.unwritten.add(1, r.size)
	}
}

// Version records the resourceVersion that the objects as recorded are those of. "" says that they cannot be resumed from:
// a list is being told.
func (i *Informer) Version(rv string) {
	if i.store.broken.Load() || i.dropped.Load() {
		return
	}
	if !i.touched {
		i.touched = true
		i.store.unwritten.records.Add(1)
	}
	i.version = rv
	i.told = i.told || rv != ""
}

// forget empties the informer of what it has loaded.
func (i *Informer) forget() {
	clear(i.unwritten)
	i.version, i.told, i.touched, i.written = "", false, false, informerRecord{}
	i.loaded.Store(false)
}
