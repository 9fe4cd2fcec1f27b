package source

import (
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Listener hears of the changes of one informer.
type Listener struct {
	// Resync is how often OnDelta is called with every object, as Synced. 0: never. Less than a second counts as one.
	Resync time.Duration
	// OnDelta is called with one change at a time, in order; calls for one informer never overlap. tree is d.Object decoded
	// to at least the informer's view (see Informer.Keep), or nil where that was not at hand. It must not be changed, and
	// nothing of it be kept: when OnDelta returns its memory is used for the next. OnDelta must not block for long, and not
	// call AddListener, or what AddListener returned, of the same informer. A panic is counted, and the change taken as
	// heard.
	OnDelta func(d delta.Delta, tree any)
	// OnReturn is called in the place of OnDelta for each object of which only a part was saved by another run (see
	// Saved.Partial) as a list brings it: changed since, or of the same resourceVersion. tree and what may be done meanwhile
	// are as for OnDelta. nil leaves it at OnDelta.
	OnReturn func(o, saved *object.Object, tree any)
}

// listener is a Listener and how far it has come. Under Informer.mu.
type listener struct {
	Listener
	joining map[delta.Key]struct{} // what was known when it joined, and it has not heard of yet
	next    time.Time              // when the next resync is due; zero: never
	round   int64                  // of the resync at hand, and
	rest    []delta.Key            // what is left of it
}

// AddListener adds a listener, before Run or at any time during it. What is known by then comes as Synced, after
// AddListener has returned, but of each object before anything else of it. remove ends it: once remove has returned,
// OnDelta is not called any more.
func (i *Informer) AddListener(l Listener) (remove func()) {
	added := &listener{Listener: l}
	i.mu.Lock()
	defer i.mu.Unlock()
	if l.Resync > 0 {
		added.Resync = max(l.Resync, time.Second)
		added.next = time.Now().Add(added.Resync)
	}
	if len(i.known) > 0 {
		added.joining = make(map[delta.Key]struct{}, len(i.known))
		for key := range i.known {
			added.joining[key] = struct{}{}
		}
	}
	i.listeners = append(i.listeners, added)
	i.wake()
	return sync.OnceFunc(func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.listeners = slices.DeleteFunc(i.listeners, func(l *listener) bool { return l == added })
	})
}

// Visit calls f with what listeners have been told of, while they are told nothing: between two changes. f must not call what
// AddListener may not be called from.
func (i *Informer) Visit(f func(known iter.Seq[*object.Object])) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.call(func() { f(maps.Values(i.known)) })
}

// tell, with i.mu, tells one listener of a change. To one that has not heard of the object yet, the object is what was
// there when it joined, in its newest state.
func (i *Informer) tell(l *listener, d delta.Delta, tree any) {
	if _, unheard := l.joining[d.Key()]; unheard {
		delete(l.joining, d.Key())
		switch d.Type {
		case delta.Deleted:
			return
		case delta.Updated:
			d = delta.Delta{Type: delta.Synced, Object: d.Object}
		}
	}
	i.call(func() { l.OnDelta(d, tree) })
}

// call calls a listener.
func (i *Informer) call(listener func()) {
	defer func() {
		if p := recover(); p != nil {
			i.counts.listenerPanics.Add(1)
			i.parent.sayer.warn(i.log, "a listener has panicked", i.sel.String(), "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		}
	}()
	listener()
}
