package source

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Record is told what the listeners have been told, so that another run can go on from there. Between Begin and End it hears
// of one change, or of several; what it hears is true as soon as End has returned. Calls for one informer never overlap.
// They are made where changes are told: they must not wait for anything.
type Record interface {
	Begin()
	// Put says that o is how an object is now known.
	Put(o *object.Object)
	// Delete says that an object is not known any more.
	Delete(key delta.Key)
	// Version says from where the server's changes are to be told. Empty, they can be told from nowhere: a list is being
	// told, and another run has to list too.
	Version(resourceVersion string)
	End()
	// Complete says, once and outside of Begin and End, that what was saved, if anything, has been followed up: the first
	// list was told, or the server had no more to tell, and the cache is as fresh; or the resource is not served, and there
	// is nothing. known are the objects that there are, each
	// as it would be kept now; no change is told before Complete returns.
	Complete(known iter.Seq[*object.Object])
}

// noRecord is the Record of an informer without one.
type noRecord struct{}

func (noRecord) Begin()                            {}
func (noRecord) Put(*object.Object)                {}
func (noRecord) Delete(delta.Key)                  {}
func (noRecord) Version(string)                    {}
func (noRecord) End()                              {}
func (noRecord) Complete(iter.Seq[*object.Object]) {}

// Saved is what a Record was told, in another run.
type Saved struct {
	// Objects are those that were known.
	Objects []*object.Object
	// ResourceVersion is where to go on. Empty: the objects have to be compared with a list.
	ResourceVersion string
	// Partial says that the objects have not all that is to be kept of them now. What has not changed since is taken from a
	// list without a word to listeners with OnDelta alone, and what has is told as Synced: see Listener.OnReturn.
	Partial bool
	// Follow has the server's changes since ResourceVersion told before a list fills the parts, so that what came and went
	// since is told as well. It is for parts that the Record keeps no more of than it is given here: the place to go on from
	// moves while not all parts are filled.
	Follow bool
}

// Restore has the informer go on from what was saved, and tell r what comes. It is called before Run, and after the listeners
// were added that know of these objects: they are told only what has changed. A nil Record is none.
//
// The informer then follows the server from the saved resourceVersion. Where that is not possible (the server has no history
// that far back, or does not know that resourceVersion yet) a list is compared with what was saved: listeners hear of
// additions, of updates with the old state, and of deletions with the last.
func (i *Informer) Restore(saved Saved, r Record) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r != nil {
		i.record = r
	}
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
	i.record.Begin()
	defer i.record.End()
	i.record.Version("")
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

// comeBack, with i.mu, takes in the state of an object of which a part was saved.
func (i *Informer) comeBack(o, saved *object.Object, tree any) {
	i.remember(o)
	defer i.record.Put(o)
	for _, l := range i.listeners {
		switch {
		case l.OnReturn != nil:
			i.call(func() { l.OnReturn(o, saved, tree) })
		case o.ResourceVersion() != saved.ResourceVersion():
			i.tell(l, delta.Delta{Type: delta.Synced, Object: o, Round: time.Now().Unix()}, tree)
		}
	}
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

// followedUp, with i.mu, says once that what was saved has been followed up.
func (i *Informer) followedUp() {
	if !i.complete {
		i.complete = true
		i.record.Complete(maps.Values(i.known))
	}
}

// told, with i.mu, takes in that everything before a barrier has been told. What a list did not bring any more is gone.
func (i *Informer) told(b *barrier) {
	for len(i.unseen) > 0 {
		i.sweep(i.parent.tuning.chunk)
	}
	i.unseen, i.partial = nil, false
	if b.version == "" {
		return
	}
	i.record.Begin()
	defer i.record.End()
	i.resumable = true
	i.record.Version(b.version)
}

// sweep, with i.mu, tells that some of what was not seen is gone: so many at a time, for who else records waits meanwhile.
func (i *Informer) sweep(chunk int) {
	i.record.Begin()
	defer i.record.End()
	for key := range i.unseen {
		if chunk--; chunk < 0 {
			return
		}
		delete(i.unseen, key)
		if old := i.known[key]; old != nil {
			i.forget(old, old, nil)
		}
	}
}
