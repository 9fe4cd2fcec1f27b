package source

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// handler is the one client-go listener of a generation. It evaluates each notification, that is, hands it to the
// informer's listeners, before it returns, and does nothing else.
type handler struct {
	g       *generation
	arrival delta.Type
}

var _ cache.ResourceEventHandler = (*handler)(nil)

// OnAdd is also called for what a relist finds.
func (h *handler) OnAdd(obj any, isInInitialList bool) {
	as := delta.Added
	if isInInitialList {
		as = h.arrival
	}
	h.evaluate(obj, func(o *object.Object, tree any, watched bool) { h.g.informer.observe(o, as, tree, watched) })
}

// OnUpdate is also called for everything that a relist finds again, changed or not.
func (h *handler) OnUpdate(_, obj any) {
	h.evaluate(obj, func(o *object.Object, tree any, watched bool) { h.g.informer.observe(o, delta.Added, tree, watched) })
}

// OnDelete is called with a cache.DeletedFinalStateUnknown where the deletion was missed. The last state is then the one
// that was evaluated last, as it is of an object that cannot be read any more.
func (h *handler) OnDelete(obj any) {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		if e, ok := missed.Obj.(*entry); ok {
			h.evaluate(e, func(o *object.Object, _ any, _ bool) { h.g.informer.vanished(keyOf(o), nil, nil, "") })
			return
		}
		if namespace, name, err := cache.SplitMetaNamespaceKey(missed.Key); err == nil {
			h.g.informer.vanished(delta.Key{Namespace: namespace, Name: name}, nil, nil, "")
		}
		return
	}
	if e, ok := obj.(*entry); ok && e.arrival != nil {
		switch barrier := e.arrival.barrier; {
		case barrier != nil:
			h.evaluate(e, func(*object.Object, any, bool) { h.g.passed(barrier) })
			return
		case e.arrival.unfit != nil:
			h.evaluate(e, func(o *object.Object, _ any, _ bool) { h.g.informer.vanished(keyOf(o), nil, nil, o.ResourceVersion()) })
			return
		}
	}
	h.evaluate(obj, func(o *object.Object, tree any, watched bool) {
		version := ""
		if watched {
			version = o.ResourceVersion()
		}
		h.g.informer.vanished(keyOf(o), o, tree, version)
	})
}

// evaluate is the last place where an entry changes: what was of use until now is let go. watched tells that the entry came
// by a watch, and all that the server changed before it has been evaluated.
func (h *handler) evaluate(obj any, with func(o *object.Object, tree any, watched bool)) {
	e, ok := obj.(*entry)
	if !ok {
		return
	}
	var came arrival
	if e.arrival != nil {
		came, e.arrival = *e.arrival, nil
	}
	h.g.gate.begin()
	defer h.g.gate.end(came.number)
	with(e.Object, came.tree.Value(), came.number > 0)
	came.tree.Release()
}

func keyOf(o *object.Object) delta.Key { return delta.Key{Namespace: o.Namespace(), Name: o.Name()} }

// observe takes in the state of an object. as is what it is told as if nothing is known of it; tree is the object
// decoded, or nil.
func (i *Informer) observe(o *object.Object, as delta.Type, tree any, watched bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.partial && i.known[keyOf(o)] == o {
		return // a part that was saved, on its way into the store
	}
	i.record.Begin()
	defer i.record.End()
	old, partial := i.known[keyOf(o)], i.see(keyOf(o))
	switch {
	case old == nil:
	case old.UID() != o.UID(): // deleted and created again, and only the outcome was seen
		i.forget(old, old, nil)
		as = delta.Added
	case partial:
		i.comeBack(o, old, tree)
		return
	case old.ResourceVersion() == o.ResourceVersion():
		i.counts.unchanged.Add(1)
		i.packer.Pack(o) // the store has it now
		return
	default:
		i.remember(o)
		i.deliver(delta.Delta{Type: delta.Updated, Object: o, Old: old}, tree)
		i.recorded(o, watched)
		return
	}
	i.remember(o)
	i.deliver(delta.Delta{Type: as, Object: o}, tree)
	i.recorded(o, watched)
}

// recorded, with i.mu, records a state that listeners have been told of.
func (i *Informer) recorded(o *object.Object, watched bool) {
	i.record.Put(o)
	version := ""
	if watched {
		version = o.ResourceVersion()
	}
	i.moved(version)
}

// moved, with i.mu, records how far the server's changes have been told: to the resourceVersion of one that came by a watch.
// What came by a list, and has none here, comes in any order.
func (i *Informer) moved(version string) {
	if !i.resumable {
		return
	}
	i.resumable = version != ""
	i.record.Version(version)
}

// vanished takes in that an object is gone. final is its last state, nil if that was missed; where only a part was saved of
// what listeners know, that part is told. version is the server's at that change, empty if a list told of it.
func (i *Informer) vanished(key delta.Key, final *object.Object, tree any, version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.record.Begin()
	defer i.record.End()
	partial := i.see(key)
	old := i.known[key]
	if old == nil {
		return // nobody was told of it
	}
	if final == nil || final.UID() != old.UID() || partial {
		final, tree = old, nil
	}
	i.forget(final, old, tree)
	i.moved(version)
}

// remember, with i.mu.
func (i *Informer) remember(o *object.Object) {
	i.known[keyOf(o)] = o
	i.counts.objects.Store(int64(len(i.known)))
	if !o.IsPacked() && i.recent.add(o, time.Now(), i.pack) {
		i.wake()
	}
}

// settle packs an object that a list has brought; if it is known as it is, it takes the place of the list's, so that it is
// not held twice.
func (i *Informer) settle(e *entry) {
	i.mu.Lock()
	known := i.known[keyOf(e.Object)]
	if _, unseen := i.unseen[keyOf(e.Object)]; unseen && i.partial {
		known = nil
	}
	i.mu.Unlock()
	if known != nil && known.UID() == e.UID() && known.ResourceVersion() == e.ResourceVersion() && e.ResourceVersion() != "" {
		e.Object = known
		return
	}
	i.packer.Pack(e.Object)
}

// pack, with i.mu, packs an object that has not changed meanwhile.
func (i *Informer) pack(o *object.Object) {
	if i.known[keyOf(o)] == o {
		i.packer.Pack(o)
	}
}

// forget, with i.mu, forgets an object and tells that it is gone.
func (i *Informer) forget(final, old *object.Object, tree any) {
	delete(i.known, keyOf(old))
	i.counts.objects.Store(int64(len(i.known)))
	i.deliver(delta.Delta{Type: delta.Deleted, Object: final, Old: old}, tree)
	i.record.Delete(keyOf(old))
}

// deliver, with i.mu, tells all listeners.
func (i *Informer) deliver(d delta.Delta, tree any) {
	i.counts.deltas[d.Type].Add(1)
	for _, l := range i.listeners {
		i.tell(l, d, tree)
	}
}
