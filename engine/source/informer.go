package source

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Informer keeps the objects of one [Selection]. A client-go informer cannot be started again, so
// an Informer has one after the other: see generation.
//
// It has more fields than most: it is where the wire, the codec, the indexes and the feed of one
// selection meet, and each of these has its own state.
type Informer struct {
	parent *Informers
	sel    Selection
	log    *slog.Logger
	client *apiClient
	health *health
	counts counts
	pace   pace
	gate   *gate
	feed   *feed
	saved  *Saved // what the first generation begins with; not used by others

	shape   atomic.Pointer[shape]      // never nil; how objects are read
	present atomic.Pointer[generation] // never nil; the one whose store is read

	// indexing is held while indexes are added and while a generation begins or becomes present. It
	// guards what follows. It is taken before any lock of client-go's.
	indexing sync.Mutex
	coming   *generation   // has begun and is not present yet; or nil
	keep     *object.Paths // nil: whole objects
	view     *object.Paths // nil: nothing
	indexes  []namedIndex

	end   context.CancelFunc // ends run; nil before that. Informers.mu guards it
	ended chan struct{}      // closed when run has returned
}

func newInformer(parent *Informers, sel Selection) *Informer {
	log := parent.log.With(sel.attrs()...)
	i := &Informer{
		parent: parent,
		sel:    sel,
		log:    log,
		health: newHealth(log, parent.sayer, sel.String()),
		pace:   pace{clock: parent.clock},
		gate:   newGate(parent.tuning.inFlight),
		ended:  make(chan struct{}),
	}
	i.feed = newFeed(parent.clock, log, parent.sayer, sel.String(), &i.counts, parent.tuning.chunk)
	i.shape.Store(newShape(nil, nil, nil))
	i.client, _ = newClient(parent.config, parent.http, sel, &entryReader{i}) // New has tried
	i.emptyGeneration()
	return i
}

// Selection returns what the informer watches.
func (i *Informer) Selection() Selection { return i.sel }

// Packer returns what packs the texts in the cache.
func (i *Informer) Packer() *object.Packer { return i.feed.packer }

// Keep says which parts of objects are of use. keep is what the cache keeps beside their identity;
// nil, the default, keeps them whole. view is what Step.Tree has; nil is nothing. Neither may
// change any more. Keep takes effect with the next object that comes, so it is called before the
// informer runs.
func (i *Informer) Keep(keep, view *object.Paths) {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	i.keep, i.view = keep, view
	i.shape.Store(newShape(i.keep, i.view, i.indexes))
}

// State returns where the informer stands, and why.
func (i *Informer) State() (State, string) {
	state, reason, _, _, _ := i.health.read()
	return state, reason
}

// HasSynced reports whether the consumer has been told what the server had when the informer began:
// the first list, or what was missed since the saved state. It is false again while the cluster
// does not serve the resource.
func (i *Informer) HasSynced() bool {
	_, _, _, synced, _ := i.health.read()
	return synced
}

// LastSyncResourceVersion returns the resourceVersion of the cache, which is at least as fresh as
// what was told.
func (i *Informer) LastSyncResourceVersion() string {
	return i.store().LastStoreSyncResourceVersion()
}

// IsSettled reports whether the cache has what there is to know: the informer has synced, or its
// resource is not served or forbidden.
func (i *Informer) IsSettled() bool {
	state, _, _, synced, _ := i.health.read()
	return isSettled(state, synced)
}

func isSettled(s State, synced bool) bool { return synced || s == NotServed || s == Forbidden }

// WaitUntilSettled returns true when each of the informers has been settled, or false when ctx
// ends.
func WaitUntilSettled(ctx context.Context, informers ...*Informer) bool {
	for _, i := range informers {
		for {
			state, _, _, synced, changed := i.health.read()
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
	running.Go(func() { i.feed.run(ctx) })

	// What the first list brings was there before. Once the cluster did not serve the resource
	// there was nothing, and what is there later was added.
	i.health.listing()
	for arrival := delta.Synced; ; arrival = delta.Added {
		err := i.newGeneration(arrival).run(ctx)
		if ctx.Err() != nil {
			return
		}
		var notServed notServedError
		if !errors.As(err, &notServed) { // errRelist
			continue
		}
		// The cache goes first, so that it is as fresh as the deletions.
		i.emptyGeneration()
		i.health.notServed(string(notServed))
		i.feed.clear(ctx)
		isConfirmed := i.parent.served.wait(ctx, i.sel, i.parent.tuning.poll) == isServed
		if ctx.Err() != nil {
			return
		}
		if isConfirmed { // else its first answer will tell
			i.health.listing()
		}
	}
}

// reached is called when a mark was reached.
func (i *Informer) reached(m mark) {
	i.feed.reached(m)
	if m.caughtUp {
		i.health.listed(i.counts.objects.Load())
	}
}

// unreadable counts an object that cannot be read, and says so without its content.
func (i *Informer) unreadable(e *entry) {
	i.counts.unreadable.Add(1)
	i.parent.sayer.warn(i.log, "an object cannot be read, and is taken for absent", i.sel.String(),
		"key", keyOf(e.Object).String(), "error", e.arrival.unfit)
}

// Stats are an informer's numbers.
type Stats struct {
	State           State
	Reason          string
	Since           time.Time // of the state
	Objects         int       // that the consumer knows of
	Deltas          map[delta.Type]uint64
	Unchanged       uint64 // updates that were dropped because the resourceVersion was the same
	Unreadable      uint64 // objects that could not be read, each time that one came
	IndexPanics     uint64
	ConsumerPanics  uint64
	Lists           uint64 // initial states received, by list or WatchList
	Watches         uint64 // watches opened
	Pending         int    // watch events that were read and that the consumer has not taken
	ResourceVersion string // of the cache
}

// Stats returns the numbers as they are now. It is cheap.
func (i *Informer) Stats() Stats {
	state, reason, since, _, _ := i.health.read()
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
		Pending: i.gate.depth(), ResourceVersion: i.LastSyncResourceVersion(),
	}
}

type counts struct {
	objects               atomic.Int64
	deltas                [delta.Synced + 1]atomic.Uint64
	unchanged, unreadable atomic.Uint64
	indexPanics, panics   atomic.Uint64
	lists, watches        atomic.Uint64
}
