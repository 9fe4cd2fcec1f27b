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

// observe takes in the state of an object. as is the type of its delta if the object is new; tree is
// the object decoded, or nil. watched says that it came by a watch.
func (i *Informer) observe(o *object.Object, as delta.Type, tree any, watched bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.partial && i.known[keyOf(o)] == o {
		return // a part that was saved, on its way into the store
	}
	old, partial := i.known[keyOf(o)], i.see(keyOf(o))
	switch {
	case old == nil:
	case old.UID() != o.UID(): // deleted and created again, and only the outcome was seen
		i.take(i.gone(old, old, partial, nil))
		as, old = delta.Added, nil
	case partial:
		i.remember(o)
		d := delta.Delta{Type: delta.Synced, Object: o, Round: i.now().Unix()}
		i.take(Step{Delta: d, Tree: tree, Saved: old})
		return
	case old.ResourceVersion() == o.ResourceVersion():
		i.counts.unchanged.Add(1)
		i.packer.Pack(o) // the store has it now
		return
	default:
		as = delta.Updated
	}
	i.remember(o)
	i.take(i.moved(Step{Delta: delta.Delta{Type: as, Object: o, Old: old}, Tree: tree}, watched))
}

// moved returns a step with the position after it: the resourceVersion of what came by a watch. What
// came by a list comes in any order, so there is no position from then on. It is called with i.mu.
func (i *Informer) moved(s Step, watched bool) Step {
	if !i.resumable {
		return s
	}
	s.Moved, i.resumable = true, watched
	if watched {
		s.Position = s.Delta.Object.ResourceVersion()
	}
	return s
}

// vanished takes in that an object is gone. final is its last state, or nil if that was missed.
// version is the server's resourceVersion of the deletion, or empty if a list revealed it.
func (i *Informer) vanished(key delta.Key, final *object.Object, tree any, version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	partial := i.see(key)
	old := i.known[key]
	if old == nil {
		return // the consumer does not know of it
	}
	if final == nil || final.UID() != old.UID() || partial {
		final, tree = old, nil
	}
	s := i.gone(final, old, partial, tree)
	if i.resumable {
		i.resumable = version != ""
		s.Moved, s.Position = true, version
	}
	i.take(s)
}

// remember makes o the known state of its object. It is called with i.mu.
func (i *Informer) remember(o *object.Object) {
	i.known[keyOf(o)] = o
	i.counts.objects.Store(int64(len(i.known)))
	if !o.IsPacked() && i.recent.add(o, i.now(), i.pack) {
		i.wake()
	}
}

// settle packs an object that a list has brought. If the object is known as it is, the known one takes
// its place, so that it is not held twice.
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

// pack packs an object that has not changed meanwhile. It is called with i.mu.
func (i *Informer) pack(o *object.Object) {
	if i.known[keyOf(o)] == o {
		i.packer.Pack(o)
	}
}

// gone forgets an object, of which only a part may be known, and returns the step of its deletion. It
// is called with i.mu.
func (i *Informer) gone(final, old *object.Object, partial bool, tree any) Step {
	delete(i.known, keyOf(old))
	i.counts.objects.Store(int64(len(i.known)))
	s := Step{Delta: delta.Delta{Type: delta.Deleted, Object: final, Old: old}, Tree: tree}
	if partial {
		s.Saved = old
	}
	return s
}
