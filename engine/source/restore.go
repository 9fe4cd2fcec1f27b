package source

import (
	"maps"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Saved is what a consumer recorded in another run.
type Saved struct {
	// Objects are those that were known.
	Objects []*object.Object
	// ResourceVersion is where to go on. Empty: the objects have to be compared with a list.
	ResourceVersion string
	// Partial says that the objects lack some of what is to be kept of them now. A list fills them, and
	// each comes back or is gone: see Step.Saved.
	Partial bool
	// Follow makes the informer tell the server's changes since ResourceVersion before a list fills the
	// parts, so that what came and went since is told as well. It is for a consumer that records no
	// more of an object than it gives here: the position moves while some parts are not filled yet.
	Follow bool
}

// Restore makes the informer go on from what another run saved: its consumer knows these objects, and
// takes only what has changed since. It is called before Run.
//
// The informer then follows the server from the saved resourceVersion. Where that is not possible (the
// server has no history that far back, or does not know that resourceVersion yet) it compares a list
// with what was saved: additions, updates with the old state, and deletions with the last one.
func (i *Informer) Restore(saved Saved) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, o := range saved.Objects {
		i.known[keyOf(o)] = o
	}
	i.counts.objects.Store(int64(len(i.known)))
	if len(saved.Objects) > 0 || saved.ResourceVersion != "" {
		saved.Objects = slices.Clone(saved.Objects)
		i.saved, i.partial = &saved, saved.Partial
	}
}

// takeSaved is what was saved, once.
func (i *Informer) takeSaved() *Saved {
	i.mu.Lock()
	defer i.mu.Unlock()
	saved := i.saved
	i.saved = nil
	if saved != nil {
		i.resumable = saved.follows()
		if saved.Partial {
			i.doubt()
		}
	}
	return saved
}

// compare has what was saved compared with the list that comes.
func (i *Informer) compare() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.resumable = false
	i.take(Step{Moved: true})
	i.doubt()
}

// follows tells whether the server's changes can be told from the saved resourceVersion on.
func (s *Saved) follows() bool { return s.ResourceVersion != "" && (!s.Partial || s.Follow) }

// doubt, with i.mu, takes everything that is known for unseen.
func (i *Informer) doubt() {
	i.unseen = make(map[delta.Key]struct{}, len(i.known))
	for key := range i.known {
		i.unseen[key] = struct{}{}
	}
}

// see, with i.mu, takes note that an object was heard of in this run. It tells whether what was known of it is a part that
// was saved.
func (i *Informer) see(key delta.Key) (partial bool) {
	_, first := i.unseen[key]
	delete(i.unseen, key)
	return first && i.partial
}

// passed takes in a barrier: everything before it has been told.
func (i *Informer) passed(b *barrier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.told(b)
	if b.caughtUp {
		i.followedUp()
	}
}

// followedUp tells the consumer once that it has caught up. It is called with i.mu.
func (i *Informer) followedUp() {
	if i.complete {
		return
	}
	i.complete = true
	if i.consumer != nil {
		i.guard(func() { i.consumer.CaughtUp(maps.Values(i.known)) })
	}
}

// told takes in that everything before a barrier was told. What a list did not bring any more is gone.
// It is called with i.mu.
func (i *Informer) told(b *barrier) {
	for key := range i.unseen {
		if old := i.known[key]; old != nil {
			i.take(i.gone(old, old, i.partial, nil))
		}
	}
	i.unseen, i.partial = nil, false
	if b.version == "" {
		return
	}
	i.resumable = true
	i.take(Step{Moved: true, Position: b.version})
}
