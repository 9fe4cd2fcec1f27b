package source

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// feed is what an informer's consumer knows, and tells it what comes next. client-go's store runs
// ahead of the consumer, so the state that a change is told against is kept here: the objects are
// the store's, or were.
type feed struct {
	clock  clock.PassiveClock
	counts *counts
	packer *object.Packer  // of all texts in the cache
	warn   func(panic any) // says that the consumer has panicked
	chunk  int             // objects at a time, between which changes have their turn
	poke   chan struct{}   // capacity 1: there is something due, see tick

	mu       sync.Mutex // held during each call of the consumer; guards what follows
	consumer Consumer   // nil: nobody
	rounds   []*rounds  // of resyncs
	known    map[delta.Key]*object.Object
	recent   recent
	caughtUp bool // the consumer was told so
	// resumable says that the consumer has a position.
	resumable bool
	// parts are the known objects of which another run saved only a part, until they come back.
	parts map[delta.Key]struct{}
}

func newFeed(clock clock.PassiveClock, log *slog.Logger, says *sayer, name string, c *counts, chunk int) *feed {
	return &feed{
		clock: clock, counts: c, packer: object.NewPacker(), chunk: chunk, poke: make(chan struct{}, 1),
		known: map[delta.Key]*object.Object{},
		warn: func(p any) {
			says.warn(log, "the consumer of an informer has panicked", name, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		},
	}
}

// consume sets the consumer.
func (f *feed) consume(c Consumer, intervals []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consumer, f.rounds = c, nil
	if c != nil {
		f.rounds = newRounds(intervals, f.clock.Now())
	}
}

// restore takes in what another run saved.
func (f *feed) restore(saved Saved) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumable = saved.follows()
	if saved.Partial {
		f.parts = make(map[delta.Key]struct{}, len(saved.Objects))
	}
	for _, o := range saved.Objects {
		f.known[keyOf(o)] = o
		if saved.Partial {
			f.parts[keyOf(o)] = struct{}{}
		}
	}
	f.counts.objects.Store(int64(len(f.known)))
}

// visit calls visitor between two steps.
func (f *feed) visit(visitor func(known iter.Seq[*object.Object])) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.guard(func() { visitor(maps.Values(f.known)) })
}

// observe takes in the state of an object. as is the type of its delta if the object is new; tree
// is the object decoded, or nil. watched says that it came by a watch.
func (f *feed) observe(o *object.Object, as delta.Type, tree any, watched bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := keyOf(o)
	old, isPart := f.known[key], f.isPart(key)
	if isPart && old == o {
		return // on its way into the store
	}
	switch {
	case old == nil:
	case old.UID() != o.UID(): // deleted and created again, and only the outcome was seen
		f.take(f.gone(old, old, nil))
		as, old = delta.Added, nil
	case isPart:
		delete(f.parts, key)
		f.remember(o)
		f.take(Step{Delta: delta.Delta{Type: delta.Synced, Object: o, Round: f.clock.Now().Unix()}, Tree: tree, Saved: old})
		return
	case old.ResourceVersion() == o.ResourceVersion():
		f.counts.unchanged.Add(1)
		f.packer.Pack(o) // the store has it now
		return
	default:
		as = delta.Updated
	}
	f.remember(o)
	version := ""
	if watched {
		version = o.ResourceVersion()
	}
	f.take(f.moved(Step{Delta: delta.Delta{Type: as, Object: o, Old: old}, Tree: tree}, version))
}

// vanished takes in that a watch told of the end of an object. final is its last state, or nil if
// that cannot be read. version is the resourceVersion of the deletion.
func (f *feed) vanished(key delta.Key, final *object.Object, tree any, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.known[key]
	if old == nil {
		return // the consumer does not know of it
	}
	if final == nil || final.UID() != old.UID() || f.isPart(key) {
		final, tree = old, nil
	}
	f.take(f.moved(f.gone(final, old, tree), version))
}

// lost takes in that nothing follows the restored position: a list is compared with what was saved.
func (f *feed) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumable = false
	f.take(Step{Moved: true})
}

// listed takes in that all objects of a list have been told, up to version. What is known and not
// in the list is gone. size is the number of objects in the list.
func (f *feed) listed(version string, size int, inList func(delta.Key) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, old := range f.known {
		if len(f.known) == size {
			break // all in the list are known
		}
		if !inList(key) {
			f.take(f.moved(f.gone(old, old, nil), ""))
		}
	}
	f.parts = nil
	f.move(version)
	f.followedUp()
}

// reached takes in that a mark was reached.
func (f *feed) reached(m mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.move(m.position)
	if m.caughtUp {
		f.followedUp()
	}
}

// clear tells that everything is gone, for the cluster does not serve the resource.
func (f *feed) clear(ctx context.Context) {
	f.mu.Lock()
	f.resumable = false
	f.take(Step{Moved: true})
	f.mu.Unlock()
	for ctx.Err() == nil && !f.clearSome() {
	}
}

// clearSome tells a chunk of that, and reports whether nothing is left.
func (f *feed) clearSome() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.chunk
	for _, o := range f.known {
		if left--; left < 0 {
			return false
		}
		f.take(f.gone(o, o, nil))
	}
	f.parts = nil
	f.followedUp()
	return true
}

// settle packs an object that a list has brought. If the object is known as it is, the known one
// takes its place, so that it is not held twice.
func (f *feed) settle(e *entry) {
	f.mu.Lock()
	known := f.known[keyOf(e.Object)]
	isPart := f.isPart(keyOf(e.Object))
	f.mu.Unlock()
	if known != nil && !isPart && known.UID() == e.UID() &&
		known.ResourceVersion() == e.ResourceVersion() && e.ResourceVersion() != "" {
		e.Object = known
		return
	}
	f.packer.Pack(e.Object)
}

// The methods below are called with f.mu.

func (f *feed) isPart(key delta.Key) bool {
	_, ok := f.parts[key]
	return ok
}

// remember makes o the known state of its object.
func (f *feed) remember(o *object.Object) {
	f.known[keyOf(o)] = o
	f.counts.objects.Store(int64(len(f.known)))
	if !o.IsPacked() && f.recent.add(o, f.clock.Now(), f.pack) {
		select {
		case f.poke <- struct{}{}:
		default:
		}
	}
}

// pack packs an object that has not changed meanwhile.
func (f *feed) pack(o *object.Object) {
	if f.known[keyOf(o)] == o {
		f.packer.Pack(o)
	}
}

// gone forgets an object, and returns the step of its deletion.
func (f *feed) gone(final, old *object.Object, tree any) Step {
	key := keyOf(old)
	s := Step{Delta: delta.Delta{Type: delta.Deleted, Object: final, Old: old}, Tree: tree}
	if f.isPart(key) {
		s.Saved = old
		delete(f.parts, key)
	}
	delete(f.known, key)
	f.counts.objects.Store(int64(len(f.known)))
	return s
}

// moved returns a step with the position after it, if the consumer has one: version, which is empty
// for what comes by a list, in any order.
func (f *feed) moved(s Step, version string) Step {
	if f.resumable {
		f.resumable = version != ""
		s.Moved, s.Position = true, version
	}
	return s
}

// move tells a position without a change.
func (f *feed) move(version string) {
	if version != "" {
		f.resumable = true
		f.take(Step{Moved: true, Position: version})
	}
}

// followedUp tells the consumer once that it has caught up.
func (f *feed) followedUp() {
	if f.caughtUp {
		return
	}
	f.caughtUp = true
	if f.consumer != nil {
		f.guard(func() { f.consumer.CaughtUp(maps.Values(f.known)) })
	}
}

// take hands a step to the consumer.
func (f *feed) take(s Step) {
	if s.Delta.Object != nil && (s.Saved == nil || s.Delta.Type == delta.Deleted) {
		f.counts.deltas[s.Delta.Type].Add(1)
	}
	if f.consumer != nil {
		f.guard(func() { f.consumer.Take(s) })
	}
}

// guard calls a function of the consumer's, and counts a panic of it.
func (f *feed) guard(call func()) {
	defer func() {
		if p := recover(); p != nil {
			f.counts.panics.Add(1)
			f.warn(p)
		}
	}()
	call()
}

func keyOf(o *object.Object) delta.Key { return delta.Key{Namespace: o.Namespace(), Name: o.Name()} }
