package source

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

// feed hands steps to an informer's consumer and remembers the objects that the consumer knows. It
// keeps them itself because client-go's store runs ahead of the consumer. The objects are those of
// the store, or were until the store replaced them with newer ones.
type feed struct {
	clock  clock.PassiveClock
	counts *counts
	packer *object.Packer // packs all texts in the cache
	log    *slog.Logger
	warn   func(panic any) // logs that the consumer has panicked
	chunk  int             // objects per turn of a resync or clear; changes come in between
	poke   chan struct{}   // capacity 1; signals that tick has work
	// isTroubled reports whether something keeps the informer from following the server.
	isTroubled func() bool

	mu sync.Mutex // held during each call of the consumer; guards the fields below
	// inOrder makes visits and rounds go through the objects in the order of their keys. A Hand
	// sets it, so that a run can be repeated; for many objects, that costs too much otherwise.
	inOrder  bool
	consumer Consumer                  // nil if the informer only maintains its cache
	view     *object.Paths             // of the trees that the consumer takes
	round    round                     // the round under way
	rounds   atomic.Pointer[[]*rounds] // one per timetable; read without the lock
	// known is by Object.Key. A key shares the memory of its object.
	known    map[string]*object.Object
	recent   recent
	caughtUp bool // the consumer's CaughtUp was called
	// resumable says that the consumer has a position.
	resumable bool
	// isNarrow says that known objects may lack parts that the informer is to keep now, and that
	// are in the store once that has been listed.
	isNarrow bool
	// parts are the keys of known objects that another run saved only in part, until they come
	// back.
	parts map[string]struct{}
}

func newFeed(
	clock clock.PassiveClock, log *slog.Logger, says *sayer, name string, c *counts, chunk int,
) *feed {
	f := &feed{
		log: log, clock: clock, counts: c, packer: object.NewPacker(), chunk: chunk,
		poke:  make(chan struct{}, 1),
		known: map[string]*object.Object{},
	}
	f.warn = func(p any) {
		says.warn(f.log, "the consumer of an informer has panicked", name,
			"panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	}
	return f
}

// consume sets the consumer.
func (f *feed) consume(c Consumer, tables []timing.Timetable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consumer = c
	f.setRounds(tables)
}

// setRounds sets the timetables of the rounds. Those that there were go on.
func (f *feed) setRounds(tables []timing.Timetable) {
	all := newRounds(tables, f.allRounds(), f.clock.Now())
	f.rounds.Store(&all)
	if !slices.Contains(all, f.round.of) {
		f.round = round{}
	}
}

// replace sets another consumer between two steps, and calls takeOver before that takes anything.
func (f *feed) replace(
	c Consumer, view *object.Paths, tables []timing.Timetable,
	takeOver func(known iter.Seq[*object.Object], get func(key string) *object.Object),
) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consumer, f.view = c, view
	f.setRounds(tables)
	f.guard(func() { takeOver(f.objects(), f.get) })
	f.wake()
}

// fit returns the decoded object if it is decoded to the consumer's view, and nil otherwise: it
// may have been read for the consumer before. f.mu is held.
func (f *feed) fit(came arrival) any {
	if came.view != f.view {
		return nil
	}
	return came.tree.Value()
}

// restore adopts what another run saved.
func (f *feed) restore(saved Saved) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumable = saved.follows()
	f.known = make(map[string]*object.Object, len(saved.Objects))
	if saved.Partial {
		f.parts = make(map[string]struct{}, len(saved.Objects))
	}
	for _, o := range saved.Objects {
		f.known[o.Key()] = o
		if saved.Partial {
			f.parts[o.Key()] = struct{}{}
		}
	}
	f.counts.objects.Store(int64(len(f.known)))
}

// setNarrow sets whether known objects may lack parts that the store is to have.
func (f *feed) setNarrow(isNarrow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isNarrow = isNarrow
}

// setView sets to what the consumer's trees are decoded.
func (f *feed) setView(view *object.Paths) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view = view
}

// sort makes visits and rounds go through the objects in the order of their keys.
func (f *feed) sort() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inOrder = true
}

// visit calls visitor between two steps.
func (f *feed) visit(visitor func(known iter.Seq[*object.Object])) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.guard(func() { visitor(f.objects()) })
}

// look is visit for a few objects.
func (f *feed) look(look func(get func(key string) *object.Object)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.guard(func() { look(f.get) })
}

// observe takes the new state of an object. as is the type of its delta if the object is new.
func (f *feed) observe(o *object.Object, as delta.Type, came arrival) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tree, watched := f.fit(came), came.number > 0
	key := o.Key()
	old, isPart := f.known[key], f.isPart(key)
	version := ""
	if watched {
		version = o.ResourceVersion()
	}
	switch {
	case old == nil: // it is new
	case old.UID() != o.UID(): // another object of that name; the informer missed the deletion
		f.take(f.gone(old, old, nil))
		as, old = delta.Added, nil
	case isPart:
		delete(f.parts, key)
		f.remember(o)
		d := delta.Delta{Type: delta.Synced, Object: o, Round: f.clock.Now().Unix()}
		s := Step{Delta: d, Tree: tree, Saved: old}
		// A list brings changed objects in any order. Another run that went on from the position
		// before it would see their changes backwards.
		if o.ResourceVersion() != old.ResourceVersion() {
			s = f.moved(s, version)
		}
		f.take(s)
		return
	case old.ResourceVersion() == o.ResourceVersion():
		f.counts.unchanged.Add(1)
		f.packer.Pack(o)
		delete(f.known, key) // the key is part of the old copy
		f.known[o.Key()] = o // the store has this copy now, which may have more parts
		return
	default:
		as = delta.Updated
	}
	f.remember(o)
	d := delta.Delta{Type: as, Object: o, Old: old}
	f.take(f.moved(Step{Delta: d, Tree: tree, Gap: !watched}, version))
}

// vanished handles a deletion that a watch reported. final is the last state, or nil if that is
// unreadable. version is the resourceVersion of the deletion.
func (f *feed) vanished(key string, final *object.Object, came arrival, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tree := f.fit(came)
	old := f.known[key]
	if old == nil {
		return // the consumer does not know of it
	}
	if final == nil || final.UID() != old.UID() || f.isPart(key) {
		final, tree = old, nil
	}
	f.take(f.moved(f.gone(final, old, tree), version))
}

// lost withdraws the restored position: the informer will compare a list with the saved objects.
func (f *feed) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumable = false
	f.take(Step{Moved: true})
}

// listed handles the end of a list: the consumer has taken all its objects, up to version. Objects
// that are known and not in the list are gone. size is the number of objects in the list.
func (f *feed) listed(version string, size int, inList func(key string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.keys() {
		if len(f.known) == size {
			break // the list holds all known objects
		}
		if !inList(key) {
			old := f.known[key]
			f.take(f.moved(f.gone(old, old, nil), ""))
		}
	}
	f.parts = nil
	f.move(version)
	f.followedUp()
}

// reached handles a mark that was reached.
func (f *feed) reached(m mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.move(m.position)
	if m.caughtUp {
		f.followedUp()
	}
}

// isEmpty reports whether no object is known.
func (f *feed) isEmpty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.known) == 0
}

// clear reports all objects as deleted, because the cluster serves no version of the resource.
func (f *feed) clear(ctx context.Context) {
	f.mu.Lock()
	f.resumable = false
	f.take(Step{Moved: true, Withdrawn: len(f.known) > 0})
	f.mu.Unlock()
	for ctx.Err() == nil && !f.clearSome() {
	}
}

// clearSome reports a chunk of them as deleted. It returns true if no object is left.
func (f *feed) clearSome() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.chunk
	for key := range f.keys() {
		if left--; left < 0 {
			return false
		}
		o := f.known[key]
		f.take(f.gone(o, o, nil))
	}
	f.parts = nil
	f.followedUp()
	return true
}

// packListed packs an object of a list. If the consumer knows the same state already, the entry
// shares that copy, so that memory holds it once.
func (f *feed) packListed(e *entry) {
	f.mu.Lock()
	known := f.known[e.Object.Key()]
	isPart := f.isPart(e.Object.Key()) || f.isNarrow
	f.mu.Unlock()
	if known != nil && !isPart && known.UID() == e.UID() &&
		known.ResourceVersion() == e.ResourceVersion() && e.ResourceVersion() != "" {
		e.Object = known
		return
	}
	f.packer.Pack(e.Object)
}

// The methods below are called with f.mu held.

func (f *feed) isPart(key string) bool {
	_, ok := f.parts[key]
	return ok
}

// keys yields the keys of the known objects.
func (f *feed) keys() iter.Seq[string] {
	if f.inOrder {
		return slices.Values(slices.Sorted(maps.Keys(f.known)))
	}
	return maps.Keys(f.known)
}

// objects yields the known objects.
func (f *feed) objects() iter.Seq[*object.Object] {
	if !f.inOrder {
		return maps.Values(f.known)
	}
	return func(yield func(*object.Object) bool) {
		for key := range f.keys() {
			if !yield(f.known[key]) {
				return
			}
		}
	}
}

// remember makes o the known state of its object.
func (f *feed) remember(o *object.Object) {
	f.known[o.Key()] = o
	f.counts.objects.Store(int64(len(f.known)))
	if !o.IsPacked() && f.recent.add(o, f.clock.Now(), f) {
		f.wake()
	}
}

// wake has tick called.
func (f *feed) wake() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// isNewest reports whether no other state has replaced this one.
func (f *feed) isNewest(o *object.Object) bool { return f.known[o.Key()] == o }

// pack packs an object. If a newer state has replaced it, pack only drops the plain text of one
// that somebody else has packed.
func (f *feed) pack(o *object.Object) {
	if f.isNewest(o) {
		f.packer.Pack(o)
	} else {
		o.Shrink()
	}
}

// gone forgets an object, and returns the step of its deletion.
func (f *feed) gone(final, old *object.Object, tree any) Step {
	key := old.Key()
	s := Step{Delta: delta.Delta{Type: delta.Deleted, Object: final, Old: old}, Tree: tree}
	if f.isPart(key) {
		s.Saved = old
		delete(f.parts, key)
	}
	delete(f.known, key)
	f.counts.objects.Store(int64(len(f.known)))
	return s
}

// moved adds the position after the step, if the consumer has one. version is empty for objects of
// a list, which come in any order.
func (f *feed) moved(s Step, version string) Step {
	if f.resumable {
		f.resumable = version != ""
		s.Moved, s.Position = true, version
	}
	return s
}

// move hands over a position without a change.
func (f *feed) move(version string) {
	if version != "" {
		f.resumable = true
		f.take(Step{Moved: true, Position: version})
	}
}

// followedUp calls the consumer's CaughtUp, once.
func (f *feed) followedUp() {
	if f.caughtUp {
		return
	}
	f.caughtUp = true
	if f.consumer != nil {
		f.guard(func() { f.consumer.CaughtUp(f.objects()) })
		f.wake()
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

// guard calls a function of the consumer, and counts and logs its panic.
func (f *feed) guard(call func()) {
	defer func() {
		if p := recover(); p != nil {
			f.counts.panics.Add(1)
			f.warn(p)
		}
	}()
	call()
}
