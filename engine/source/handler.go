package source

import (
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
	h.evaluate(obj, func(o *object.Object) { h.g.informer.observe(o, as) })
}

// OnUpdate is also called for everything that a relist finds again, changed or not.
func (h *handler) OnUpdate(_, obj any) {
	h.evaluate(obj, func(o *object.Object) { h.g.informer.observe(o, delta.Added) })
}

// OnDelete is called with a cache.DeletedFinalStateUnknown where the deletion was missed. The last state is then the one
// that was evaluated last.
func (h *handler) OnDelete(obj any) {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		if o, ok := missed.Obj.(*object.Object); ok {
			h.evaluate(o, func(o *object.Object) { h.g.informer.vanished(keyOf(o), nil) })
			return
		}
		if namespace, name, err := cache.SplitMetaNamespaceKey(missed.Key); err == nil {
			h.g.informer.vanished(delta.Key{Namespace: namespace, Name: name}, nil)
		}
		return
	}
	h.evaluate(obj, func(o *object.Object) {
		if h.g.wire.bare.take(o) {
			h.g.informer.vanished(keyOf(o), nil)
			return
		}
		h.g.informer.vanished(keyOf(o), o)
	})
}

func (h *handler) evaluate(obj any, with func(*object.Object)) {
	o, ok := obj.(*object.Object)
	if !ok {
		return
	}
	h.g.gate.begin()
	defer h.g.gate.end(o)
	with(o)
}

func keyOf(o *object.Object) delta.Key { return delta.Key{Namespace: o.Namespace(), Name: o.Name()} }

// observe takes in the state of an object. as is what it is told as if nothing is known of it.
func (i *Informer) observe(o *object.Object, as delta.Type) {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := i.known[keyOf(o)]
	switch {
	case old == nil:
	case old.UID() != o.UID(): // deleted and created again, and only the outcome was seen
		i.forget(old, old)
		as = delta.Added
	case old.ResourceVersion() == o.ResourceVersion():
		i.counts.unchanged.Add(1)
		return
	default:
		i.remember(o)
		i.deliver(delta.Delta{Type: delta.Updated, Object: o, Old: old})
		return
	}
	i.remember(o)
	i.deliver(delta.Delta{Type: as, Object: o})
}

// vanished takes in that an object is gone. final is its last state, nil if that was missed.
func (i *Informer) vanished(key delta.Key, final *object.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := i.known[key]
	if old == nil {
		return // nobody was told of it
	}
	if final == nil || final.UID() != old.UID() {
		final = old
	}
	i.forget(final, old)
}

// remember, with i.mu.
func (i *Informer) remember(o *object.Object) {
	i.known[keyOf(o)] = o
	i.counts.objects.Store(int64(len(i.known)))
}

// forget, with i.mu, forgets an object and tells that it is gone.
func (i *Informer) forget(final, old *object.Object) {
	delete(i.known, keyOf(old))
	i.counts.objects.Store(int64(len(i.known)))
	i.deliver(delta.Delta{Type: delta.Deleted, Object: final, Old: old})
}

// deliver, with i.mu, tells all listeners.
func (i *Informer) deliver(d delta.Delta) {
	i.counts.deltas[d.Type].Add(1)
	for _, l := range i.listeners {
		i.tell(l, d)
	}
}
