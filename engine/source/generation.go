package source

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/informd/informd/engine/delta"
)

// generation is one client-go informer, from start to end, with the wire that feeds it and the handler that hears it.
type generation struct {
	informer *Informer
	store    cache.Indexer
	gate     *gate

	shared cache.SharedIndexInformer // nil in an empty generation
	wire   *wire

	caughtUp chan struct{} // closed when the informer is as fresh as the server was when the generation began
	catchUp  func()        // closes it, once
}

// emptyGeneration makes one that never runs, and the present one of it: an empty store with all indexes.
func (i *Informer) emptyGeneration() {
	i.indexing.Lock()
	defer i.indexing.Unlock()
	i.present.Store(&generation{
		informer: i,
		store:    cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, i.indexers()),
		gate:     newGate(0, 0),
	})
}

// newGeneration makes the next one, and the present one of it. arrival is what the objects of its first list are told
// as: Synced or Added.
func (i *Informer) newGeneration(arrival delta.Type) *generation {
	s := i.parent
	saved := i.takeSaved()
	if saved != nil && saved.ResourceVersion != "" { // all that there was then is known
		arrival = delta.Added
	}
	g := &generation{informer: i, gate: newGate(s.tuning.unreviewed, s.tuning.stalled), caughtUp: make(chan struct{})}
	g.catchUp = sync.OnceFunc(func() { close(g.caughtUp) })
	g.wire = &wire{
		client: i.client, sel: i.sel, tuning: s.tuning, slots: s.slots, served: s.served, reach: s.reach,
		status: i.status, gate: g.gate, counts: &i.counts, skip: i.unreadable,
		settle: i.settle,
		log:    i.log, pace: pace{clock: s.clock}, saved: saved, restored: i.restored, compare: i.compare,
	}
	// ResyncPeriod stays 0: client-go would hand every object to every listener each time. Resyncs are ours (walk.go).
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  g.wire.list,
		WatchFuncWithContext: g.wire.watch,
	}, i.client.rest)

	i.indexing.Lock()
	defer i.indexing.Unlock()
	g.shared = cache.NewSharedIndexInformerWithOptions(lw, &entry{}, cache.SharedIndexInformerOptions{
		Indexers: i.indexers(), ObjectDescription: i.sel.String(),
	})
	// What goes wrong is told by the wire. Neither error can be: both are about informers that have started.
	_ = g.shared.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	silent := logr.Discard()
	_, _ = g.shared.AddEventHandlerWithOptions(&handler{g: g, arrival: arrival}, cache.HandlerOptions{Logger: &silent})
	g.store = g.shared.GetIndexer()
	i.present.Store(g)
	return g
}

// run returns when ctx has ended, or with the reason why the resource is not served; and when every goroutine has ended
// that it started, client-go's included.
func (g *generation) run(ctx context.Context) (reason string) {
	// client-go's own words are about retries that the wire makes, and may carry objects.
	ctx, end := context.WithCancelCause(klog.NewContext(ctx, logr.Discard()))
	defer end(nil)
	g.wire.gone = func(reason string) { end(notServedError(reason)) }

	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-g.caughtUp:
			g.informer.status.listed(g.informer.counts.objects.Load())
		case <-ctx.Done():
		}
	})
	g.shared.RunWithContext(ctx)
	g.wire.calls.close()
	watching.Wait()

	var notServed notServedError
	errors.As(context.Cause(ctx), &notServed)
	return string(notServed)
}

// notServedError is why a generation ended.
type notServedError string

func (e notServedError) Error() string { return string(e) }

// unreadable counts an object that could not be read, and says so, without its content.
func (i *Informer) unreadable(e *entry) {
	i.counts.unreadable.Add(1)
	i.parent.sayer.warn(i.log, "an object cannot be read, and is taken for absent", i.sel.String(),
		"key", keyOf(e.Object).String(), "error", e.arrival.unfit)
}
