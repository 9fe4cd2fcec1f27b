package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

// Informer caches the objects of one [Selection]. A client-go informer cannot be started again, so
// an Informer runs one after the other: see generation.
//
// What belongs to one selection meets here. The cache, the reader, the feed and the rest each have
// their own state, and their own rules about locks.
type Informer struct {
	parent     *Informers
	sel        Selection
	log        *slog.Logger
	client     *apiClient
	reader     *entryReader
	cache      *objectCache
	feed       *feed
	gate       *gate
	health     *health
	hearing    *hearing
	confirming *confirming
	counts     counts
	watches    watchHistory
	relist     pace // of generations
	// isAhead says that the server is at an earlier resourceVersion than the cache.
	isAhead atomic.Bool
	saved   *Saved // the start of the first generation; only run uses it later
	// hasFollowed says that all objects of the server were known before this generation, in this run
	// or an earlier one: new ones in its list are Added and not Synced. Only run, or the Hand, uses it
	// later.
	hasFollowed bool
	fixed       []byte // the one object, as JSON, of an informer that Fixed has made; nil otherwise

	byHand *Hand // drives the informer, unless run does
	life   life
}

func newInformer(parent *Informers, sel Selection) *Informer {
	log := parent.log.With(attrsOf(sel)...)
	i := &Informer{
		parent: parent,
		sel:    sel,
		log:    log,
		health: newHealth(log, parent.sayer, sel.String()),
		relist: pace{clock: parent.clock},
		gate:   newGate(parent.tuning.inFlight),
		life:   life{ended: make(chan struct{})},
	}
	i.feed = newFeed(parent.clock, log, parent.sayer, sel.String(), &i.counts, parent.tuning.chunk)
	i.feed.isTroubled = i.health.isTroubled
	i.reader = &entryReader{selection: sel, counts: &i.counts, sayer: parent.sayer, log: log}
	i.cache = newObjectCache(i.reader, i.feed)
	i.watches.health, i.watches.pace.clock = i.health, parent.clock
	i.hearing = &hearing{clock: parent.clock, doubted: make(chan struct{}, 1)}
	i.confirming = newConfirming(i)
	// New has tried it.
	i.client, _ = newClient(
		parent.config, parent.over, sel, i.reader, i.hearing, &parent.tuning)
	return i
}

// Selection returns what the informer watches.
func (i *Informer) Selection() Selection { return i.sel }

// Packer returns the packer of the texts in the cache.
func (i *Informer) Packer() *object.Packer { return i.feed.packer }

// IsFixed reports whether Informers.Fixed has made the informer.
func (i *Informer) IsFixed() bool { return i.fixed != nil }

// NameSources adds to the log lines of the informer which sources it serves. Call it before the
// informer runs.
func (i *Informer) NameSources(names ...string) {
	attrs := []any{slog.String("source", strings.Join(names, ","))}
	i.log = i.parent.log.With(append(attrs, attrsOf(i.sel)...)...)
	i.health.log, i.feed.log, i.reader.log = i.log, i.log, i.log
}

// Keep limits which parts of objects the informer holds. keep lists what the cache keeps beside the
// identity; nil, the default, keeps whole objects. view lists what Step.Tree contains; nil means
// nothing. Keep affects only objects that come later, so call it before the informer runs; see
// Widen and Replace for afterwards.
func (i *Informer) Keep(keep, view *object.Paths) {
	i.cache.keep(keep, view)
}

// Replace sets another consumer in place of the one that Consume has set, also while the informer
// runs. From then on, view and rounds are as Keep and Consume say; rounds that both consumers have
// go on. takeOver is called between two steps, with the objects that the consumer before knows and a
// function that finds one of them; the new one takes every step after that. Both are valid until
// takeOver returns. CaughtUp is called only if it has not been called yet. A consumer must not call
// Replace.
func (i *Informer) Replace(
	c Consumer, view *object.Paths,
	takeOver func(known iter.Seq[*object.Object], get func(key string) *object.Object),
	rounds ...timing.Timetable,
) {
	i.cache.setView(view)
	i.feed.replace(c, view, rounds, takeOver)
}

// IsFresh reports whether the informer follows the server, and has done so for a second since the
// last trouble. Then nothing suggests that the cache differs from the server.
func (i *Informer) IsFresh() bool { return i.health.fresh(i.feed.clock.Now()) }

// State returns the state of the informer, and the reason for it.
func (i *Informer) State() (State, string) {
	state, reason, _, _, _ := i.health.read()
	return state, reason
}

// HasSynced reports whether the consumer has taken what the server had when the informer began: the
// first list, or the changes since the saved state. It becomes false when the cluster serves no
// version of the resource any more.
func (i *Informer) HasSynced() bool {
	_, _, _, synced, _ := i.health.read()
	return synced
}

// LastSyncResourceVersion returns the resourceVersion of the cache. The cache is at least as fresh
// as the steps that the consumer has taken.
func (i *Informer) LastSyncResourceVersion() string {
	return i.cache.store().LastStoreSyncResourceVersion()
}

// IsSettled reports whether the cache is as complete as it can be now. That is so if the informer
// has synced, or if its resource is not served, forbidden or unusable.
func (i *Informer) IsSettled() bool {
	state, _, _, synced, _ := i.health.read()
	return isSettled(state, synced)
}

// HasRead reports whether the informer is settled and has synced at least once since it began.
// Until then an empty cache says nothing about the cluster.
func (i *Informer) HasRead() bool {
	settled, hasRead, _ := i.health.progress()
	return settled && hasRead
}

func isSettled(s State, synced bool) bool {
	return synced || s == NotServed || s == Forbidden || s == Unusable
}

// WaitUntilSettled returns true once each informer has been settled at least once, or false if ctx
// ends first.
func WaitUntilSettled(ctx context.Context, informers ...*Informer) bool {
	return waitUntil(ctx, informers, func(settled, _ bool) bool { return settled })
}

// WaitUntilRead returns true once each informer has synced at least once, or false if ctx ends
// first.
func WaitUntilRead(ctx context.Context, informers ...*Informer) bool {
	return waitUntil(ctx, informers, func(settled, hasRead bool) bool { return settled && hasRead })
}

func waitUntil(ctx context.Context, informers []*Informer, is func(settled, hasRead bool) bool) bool {
	for _, i := range informers {
		for {
			settled, hasRead, changed := i.health.progress()
			if is(settled, hasRead) {
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

// run runs the informer until ctx ends.
func (i *Informer) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	if i.IsFixed() {
		i.Hand()
		i.feed.run(ctx)
		return
	}
	running.Go(func() { i.feed.run(ctx) })
	running.Go(func() { i.sayProgress(ctx) })
	running.Go(func() { i.confirming.run(ctx) })

	i.health.listing()
	for {
		err := i.newGeneration().run(ctx)
		if ctx.Err() != nil {
			return
		}
		var notServed notServedError
		if !errors.As(err, &notServed) { // errRelist
			if i.cache.isWidening() {
				continue // no trouble of the server
			}
			// Each generation has a new reflector, whose backoff begins at its shortest.
			delay, _ := i.relist.next(i.parent.tuning.calm, i.parent.tuning.maxPause)
			i.relist.began()
			_ = sleep(ctx, jitter(delay)) // if ctx ends, so does the next generation
			continue
		}
		i.hasFollowed = true // there were none, so objects that a later list has are new
		isConfirmed := i.unserved(ctx, string(notServed))
		if ctx.Err() != nil {
			return
		}
		if isConfirmed { // otherwise the server's first answer decides
			i.health.listing()
		}
	}
}

// progressEvery is the time between two log lines about a list under way.
const progressEvery = 10 * time.Second

// sayProgress logs how far the first list is, every ten seconds until the informer has synced.
func (i *Informer) sayProgress(ctx context.Context) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		state, _, since, synced, _ := i.health.read()
		if synced {
			return
		}
		if state == Listing {
			i.log.Info("source is listing", "progress", i.progress(since),
				"took", i.parent.clock.Since(since).Round(time.Second))
		}
	}
}

// progress describes how far the list is that began at a time: the objects so far, the rate, and
// what is left where that is known. Objects that the informer restored say how many to expect.
func (i *Informer) progress(began time.Time) string {
	received, left := i.counts.received.Load(), i.counts.left.Load()
	switch known := i.counts.objects.Load(); {
	case received > 0:
	case known > 0: // it resumes, and what changed meanwhile comes without a number
		return fmt.Sprintf("%d objects of the last run, catching up with the server", known)
	default:
		return "no objects yet"
	}
	if left == 0 {
		left = max(i.counts.objects.Load()-received, 0)
	}
	text := fmt.Sprintf("%d objects so far", received)
	if seconds := i.parent.clock.Since(began).Seconds(); seconds >= 1 {
		text += fmt.Sprintf(", %.0f a second", float64(received)/seconds)
	}
	if left > 0 {
		text += fmt.Sprintf(", about %d left", left)
	}
	return text
}

// reached handles a mark that was reached.
func (i *Informer) reached(m mark) {
	i.feed.reached(m)
	i.hearing.reach(m.position)
	if m.caughtUp {
		i.health.listed(i.counts.objects.Load())
	}
}

// asks returns a client for questions about the server's position.
func (i *Informer) asks() (client *apiClient) {
	i.feed.visit(func(known iter.Seq[*object.Object]) { client = i.client.within(known) })
	return client
}

// Stats are counters and the current state of an informer. They have many fields because they are a
// flat report.
type Stats struct {
	State           State
	Reason          string
	Since           time.Time // when the state began
	Objects         int       // known to the consumer
	Deltas          map[delta.Type]uint64
	Unchanged       uint64 // updates dropped because the resourceVersion was the same
	Unreadable      uint64 // objects that could not be read, counted each time they came
	IndexPanics     uint64
	ConsumerPanics  uint64
	Lists           uint64 // initial states received, by list or WatchList
	Watches         uint64 // watches opened
	Pending         int    // watch events on their way to the consumer
	ResourceVersion string // of the cache
	// LastHeard is when the server was last heard: see hearing. It is zero if it never was.
	LastHeard time.Time
}

// Stats returns the current numbers. It is cheap.
func (i *Informer) Stats() Stats {
	state, reason, since, _, _ := i.health.read()
	if state == Listing {
		reason = i.progress(since)
	}
	c := &i.counts
	deltas := map[delta.Type]uint64{}
	for t := range c.deltas {
		deltas[delta.Type(t)] = c.deltas[t].Load()
	}
	return Stats{
		State: state, Reason: reason, Since: since,
		Objects: int(c.objects.Load()), Deltas: deltas,
		Unchanged: c.unchanged.Load(), Unreadable: c.unreadable.Load(),
		IndexPanics: c.indexPanics.Load(), ConsumerPanics: c.panics.Load(),
		Lists: c.lists.Load(), Watches: c.watches.Load(),
		Pending: i.gate.depth(), ResourceVersion: i.LastSyncResourceVersion(),
		LastHeard: i.hearing.last(),
	}
}

type counts struct {
	objects               atomic.Int64
	deltas                [delta.Synced + 1]atomic.Uint64
	unchanged, unreadable atomic.Uint64
	indexPanics, panics   atomic.Uint64
	lists, watches        atomic.Uint64
	received, left        atomic.Int64 // objects of the list under way: so far, and still to come if known
}
