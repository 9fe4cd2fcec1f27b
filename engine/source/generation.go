package source

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// generation is one client-go shared informer: one list, and the watch that follows it. What
// client-go calls a relist is the next generation, whose list is compared with what the consumer
// knows. client-go's HasSynced reports only the first list of a handler. With one list per
// generation, it marks the end of every list.
type generation struct {
	informer *Informer
	arrival  delta.Type // of new objects in the list: Synced or Added
	store    cache.Indexer

	shared cache.SharedIndexInformer // nil in an empty generation
	wire   *wire
	told   chan struct{} // closed once the consumer knows all objects of the list
	handed chan struct{} // closed once client-go has handed over the list, after told
	once   sync.Once     // calls listed
}

// newGeneration makes the next generation.
func (i *Informer) newGeneration() *generation {
	saved := i.saved
	i.saved = nil
	arrival := delta.Synced
	if _, hasRead, _ := i.health.progress(); hasRead || i.hasFollowed {
		arrival = delta.Added
	}
	g := &generation{
		informer: i, arrival: arrival, told: make(chan struct{}), handed: make(chan struct{}),
	}
	g.wire = &wire{
		informer: i, saved: saved, told: g.told, handed: g.handed,
		floor: i.LastSyncResourceVersion(),
	}
	if i.isAhead.Swap(false) {
		g.wire.floor = ""
	}
	// ResyncPeriod stays 0, because client-go would hand over every object at once. The feed does
	// the resyncs.
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  g.wire.list,
		WatchFuncWithContext: g.wire.watch,
	}, i.client.lists)
	i.cache.begin(g, lw)
	return g
}

// errRelist ends a generation. The next generation lists.
var errRelist = errors.New("client-go has to list again")

// notServedError ends a generation whose resource the cluster does not serve. Its text is the
// reason.
type notServedError string

func (e notServedError) Error() string { return string(e) }

// run runs the generation. It returns when every goroutine that it started has ended, client-go's
// included. The error is errRelist, a notServedError or ctx's.
func (g *generation) run(ctx context.Context) error {
	// client-go logs about retries that the wire makes, and its messages may carry objects.
	silent := logr.Discard()
	ctx, end := context.WithCancelCause(klog.NewContext(ctx, silent))
	defer end(nil)
	g.wire.end = end

	// The wire reports what goes wrong. Neither call can fail, because the informer has not
	// started.
	_ = g.shared.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	handler, _ := g.shared.AddEventHandlerWithOptions(g, cache.HandlerOptions{Logger: &silent})

	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case <-handler.HasSyncedChecker().Done():
			g.once.Do(g.listed)
			close(g.handed)
		case <-ctx.Done():
		}
	})
	g.shared.RunWithContext(ctx)
	g.wire.calls.close()
	listening.Wait()
	g.informer.gate.reset()
	return context.Cause(ctx)
}

// listed is called once the store has the list, and the consumer knows all of its objects. No watch
// event enters before it returns. A consumer knows a saved list as soon as the store has it.
// client-go's feature AtomicFIFO, which New demands, fills the store before it hands over the first
// object.
func (g *generation) listed() {
	g.informer.cache.show(g)
	if !g.wire.resumed { // a resumed consumer took nothing yet; the watch lets it catch up
		g.informer.hearing.reach(g.wire.version)
		g.informer.hearing.take(g.wire.asked)
		g.informer.feed.listed(g.wire.version, len(g.store.ListKeys()), func(key string) bool {
			_, ok, _ := g.store.GetByKey(key)
			return ok
		})
		g.informer.health.listed(g.informer.counts.objects.Load())
		g.informer.cache.completed(g)
	}
	close(g.told)
}

var _ cache.ResourceEventHandler = (*generation)(nil)

// OnAdd implements cache.ResourceEventHandler.
func (g *generation) OnAdd(obj any, isInInitialList bool) {
	if isInInitialList && g.wire.resumed {
		g.once.Do(g.listed) // the feed has what was saved, and the consumer knows it
		return
	}
	as := delta.Added
	if isInInitialList {
		as = g.arrival
	}
	g.take(obj, func(o *object.Object, came arrival) {
		g.informer.feed.observe(o, as, came)
	})
}

// OnUpdate implements cache.ResourceEventHandler.
func (g *generation) OnUpdate(_, obj any) { g.OnAdd(obj, false) }

// OnDelete implements cache.ResourceEventHandler. client-go calls it only for deletions that a
// watch reports: a generation has one list, so no later list can reveal a missed deletion.
func (g *generation) OnDelete(obj any) {
	g.take(obj, func(o *object.Object, came arrival) {
		key, version := o.Key(), o.ResourceVersion()
		if came.unfit != nil {
			o = nil
		}
		g.informer.feed.vanished(key, o, came, version)
	})
}

// take hands an object to the feed, and then releases its decoded tree and its place in the gate.
func (g *generation) take(obj any, on func(*object.Object, arrival)) {
	e, ok := obj.(*entry)
	if !ok {
		return
	}
	g.informer.cache.show(g)
	var came arrival
	if e.arrival != nil {
		came, e.arrival = *e.arrival, nil
	}
	on(e.Object, came)
	came.tree.Release()
	if came.number > 0 {
		g.informer.hearing.reach(e.ResourceVersion())
	}
	g.informer.gate.leave(came.number, g.informer.reached)
}
