package source

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Informer keeps the objects of one [Selection]. A client-go informer cannot be started again, so it has one after the
// other: a generation for each time that the resource is served.
type Informer struct {
	sel    Selection
	parent *Informers
	client *client
	log    *slog.Logger
	status *status
	counts counts

	shape    atomic.Pointer[shape]      // never nil; how objects are read
	packer   *object.Packer             // of all texts in the cache
	present  atomic.Pointer[generation] // never nil; the one whose store is read
	indexing sync.Mutex                 // no generation begins while indexes are added, and guards what follows
	keep     *object.Paths              // nil: whole objects
	view     *object.Paths              // nil: nothing
	indexes  []namedIndex

	mu       sync.Mutex                   // serialises all deliveries to listeners, and guards what follows
	known    map[delta.Key]*object.Object // the state of each object that the listeners were last told of
	recent   recent
	consumer Consumer      // nil: nobody
	rounds   []*rounds     // of resyncs
	poke     chan struct{} // capacity 1: there is something for walk

	resumable bool                   // the consumer has a position
	complete  bool                   // the consumer has caught up
	saved     *Saved                 // what the first generation begins with
	unseen    map[delta.Key]struct{} // what was saved and not heard of in this run, while it is compared with a list
	partial   bool                   // of what is unseen only a part was saved
}

func newInformer(parent *Informers, sel Selection) *Informer {
	log := parent.log.With(sel.attrs()...)
	i := &Informer{
		sel:    sel,
		parent: parent,
		log:    log,
		status: newStatus(log, parent.sayer, sel.String()),
		packer: object.NewPacker(),
		known:  map[delta.Key]*object.Object{},
		poke:   make(chan struct{}, 1),
	}
	i.shape.Store(newShape(nil, nil, nil))
	i.client, _ = newClient(parent.config, parent.http, sel, &reader{i}) // New has tried
	i.emptyGeneration()
	return i
}

// Selection is what the informer watches.
func (i *Informer) Selection() Selection { return i.sel }

func (i *Informer) now() time.Time { return i.parent.clock.Now() }

// Packer is what packs the texts in the cache.
func (i *Informer) Packer() *object.Packer { return i.packer }

// Keep says what of objects is of use, from the next that comes on: called before Run, of all. keep is what the cache
// keeps beside their identity; nil, the default, keeps them whole. view is what listeners are to be told decoded; nil is
// nothing. Neither may change any more.
func (i *Informer) Keep(keep, view *object.Paths) {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	i.keep, i.view = keep, view
	i.shape.Store(newShape(i.keep, i.view, i.indexes))
}

// State is where the informer stands, and why.
func (i *Informer) State() (State, string) {
	state, reason, _, _, _ := i.status.read()
	return state, reason
}

// HasSynced tells whether the listeners have been told of what the server had when the informer began: of the first list, or
// of what was missed since what was saved. It is false again while the resource is not
// served.
func (i *Informer) HasSynced() bool {
	_, _, _, synced, _ := i.status.read()
	return synced
}

// LastSyncResourceVersion is that of the store: of what can be read, which is at least as fresh as what was delivered.
func (i *Informer) LastSyncResourceVersion() string {
	return i.store().LastStoreSyncResourceVersion()
}

// WaitForCacheSync returns when all informers have synced, or with an error that says which have not when ctx ends.
func WaitForCacheSync(ctx context.Context, informers ...*Informer) error {
	for _, i := range informers {
		for {
			state, reason, _, synced, changed := i.status.read()
			if synced {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("%v has not synced: %v%s: %w", i.sel, state, because(reason), context.Cause(ctx))
			}
		}
	}
	return nil
}

// IsSettled tells whether the cache is what there is to know: the informer has synced, or its resource is not served or
// forbidden.
func (i *Informer) IsSettled() bool {
	state, _, _, synced, _ := i.status.read()
	return isSettled(state, synced)
}

func isSettled(s State, synced bool) bool { return synced || s == NotServed || s == Forbidden }

// WaitUntilSettled returns when each of the informers has been settled, or false when ctx ends.
func WaitUntilSettled(ctx context.Context, informers ...*Informer) bool {
	for _, i := range informers {
		for {
			state, _, _, synced, changed := i.status.read()
			if isSettled(state, synced) {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// run is the informer's life.
func (i *Informer) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { i.walk(ctx) })

	// Objects that are there at first sight are synced. Once the resource was not served there was nothing to be seen, and
	// what is there later was added.
	confirmed := true // that the resource is served, as far as it ever is; else its first answer will tell
	for arrival := delta.Synced; ; arrival = delta.Added {
		if confirmed {
			i.status.listing()
		}
		reason := i.newGeneration(arrival).run(ctx)
		if ctx.Err() != nil {
			return
		}
		// The store goes first, so that it is as fresh as the deletions.
		i.emptyGeneration()
		i.status.notServed(reason)
		i.deleteAll(ctx)
		confirmed = i.parent.served.wait(ctx, i.sel, i.parent.tuning.poll) == isServed
		if ctx.Err() != nil {
			return
		}
	}
}

// deleteAll tells the listeners that everything is gone.
func (i *Informer) deleteAll(ctx context.Context) {
	for began := false; ctx.Err() == nil; {
		i.mu.Lock()
		if i.resumable || !began {
			i.take(Step{Moved: true})
		}
		i.resumable, began = false, true
		left := i.parent.tuning.chunk
		for _, o := range i.known {
			if left--; left < 0 {
				break
			}
			_, unseen := i.unseen[keyOf(o)]
			i.take(i.gone(o, o, unseen && i.partial, nil))
		}
		done := len(i.known) == 0
		if done {
			i.unseen, i.partial = nil, false
			i.followedUp()
		}
		i.mu.Unlock()
		if done {
			return
		}
	}
}

// Stats are an informer's numbers.
type Stats struct {
	State           State
	Reason          string
	Since           time.Time // of the state
	Objects         int       // that listeners know of
	Deltas          map[delta.Type]uint64
	Unchanged       uint64 // updates that were dropped because the resourceVersion was the same
	Unreadable      uint64 // objects that could not be read, each time that one came
	IndexPanics     uint64
	ConsumerPanics  uint64
	Lists           uint64 // initial states received, by list or WatchList
	Watches         uint64 // watches opened
	Pending         int    // watch deltas taken in and not yet evaluated
	ResourceVersion string // of the store
}

// Stats are cheap.
func (i *Informer) Stats() Stats {
	state, reason, since, _, _ := i.status.read()
	c := &i.counts
	deltas := map[delta.Type]uint64{}
	for t := range c.deltas {
		deltas[delta.Type(t)] = c.deltas[t].Load()
	}
	return Stats{
		State: state, Reason: reason, Since: since,
		Objects: int(c.objects.Load()), Deltas: deltas, Unchanged: c.unchanged.Load(), Unreadable: c.unreadable.Load(),
		IndexPanics: c.indexPanics.Load(), ConsumerPanics: c.panics.Load(),
		Lists: c.lists.Load(), Watches: c.watches.Load(),
		Pending: i.present.Load().gate.depth(), ResourceVersion: i.LastSyncResourceVersion(),
	}
}

type counts struct {
	objects               atomic.Int64
	deltas                [delta.Synced + 1]atomic.Uint64
	unchanged, unreadable atomic.Uint64
	indexPanics, panics   atomic.Uint64
	lists, watches        atomic.Uint64
}
