// What is recorded of an informer and its objects.

package state

import (
	"sync/atomic"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/records"
)

// KeptMixed is [Snapshot].Kept of objects that were recorded with different paths. It equals no
// other value.
const KeptMixed = "?"

// ObjectsOptions configure [Store.Objects].
type ObjectsOptions struct {
	// Packer packs objects when they are written. They keep their plain text beside that, because
	// they are about to be delivered; the caller drops it. If Packer is nil, the Store makes one.
	Packer *object.Packer
	// Kept names the paths that recorded objects have. A Snapshot reports it after Version was
	// called with a version, because then all objects have these paths.
	Kept string
	// Secret makes the store write only the identity of an object.
	Secret bool
}

// Objects records what one informer has seen: its objects, which rules have them inside, and the
// resourceVersion to go on from. Load must be called before anything is recorded; otherwise the
// store drops what is on disk, because it does not belong to what is recorded. Put, Delete and
// Version are called between [Store.Begin] and [Store.End], by one goroutine at a time; that and
// Store.cut guard the fields below.
type Objects struct {
	store   *Store
	id      string
	owner   records.Owner
	opts    ObjectsOptions
	loaded  atomic.Bool
	dropped atomic.Bool

	unwritten map[delta.Key]objectRecord
	spare     map[delta.Key]objectRecord // an empty map for the next cut
	version   string
	told      bool // by Version, to others than ""
	touched   bool // version or told has changed since the last cut

	written records.Informer // what is on disk; zero if nothing is; used only by the writer
}

// objectRecord is the record of one object. A nil object means that it is gone.
type objectRecord struct {
	object *object.Object
	inside []string
	size   int64
}

// recordCost is roughly how many bytes a record takes besides its object.
const recordCost = 128

// Objects returns the record of the informer with this id, and makes it on the first call. Later
// calls ignore the options.
func (s *Store) Objects(id string, o ObjectsOptions) *Objects {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.informers[id]; i != nil {
		return i
	}
	if o.Packer == nil {
		o.Packer = object.NewPacker()
	}
	i := &Objects{
		store: s, id: id, owner: records.NewOwner(records.ObjectPrefix, id), opts: o,
		unwritten: make(map[delta.Key]objectRecord),
	}
	s.informers[id] = i
	return i
}

// Put records an object and the names of the rules that have it inside. The Store keeps both.
func (i *Objects) Put(o *object.Object, inside []string) {
	i.set(keyOf(o), objectRecord{o, inside, int64(o.Size()) + recordCost})
}

// Delete records that the object is gone.
func (i *Objects) Delete(key delta.Key) {
	if i.store.db.Load() == nil { // nothing on disk has to be removed
		if was, ok := i.unwritten[key]; ok {
			delete(i.unwritten, key)
			i.store.unwritten.add(-1, -was.size)
		}
		return
	}
	i.set(key, objectRecord{size: recordCost})
}

func (i *Objects) set(key delta.Key, r objectRecord) {
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

// Version records the resourceVersion of the recorded objects. "" means that another run cannot
// resume from them, because a list is under way, or the resource is not served any more.
func (i *Objects) Version(rv string) {
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

// forget drops everything that was loaded or recorded.
func (i *Objects) forget() {
	clear(i.unwritten)
	i.version, i.told, i.touched, i.written = "", false, false, records.Informer{}
	i.loaded.Store(false)
}
