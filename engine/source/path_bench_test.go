package source

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/informd/informd/engine/object"
)

// BenchmarkPath compares the ways that client-go offers from a watch to the consumer, without a
// server and without decoding:
//
//	shared      Reflector, RealFIFO, SharedIndexInformer, processorListener; bounded
//	controller  Reflector, RealFIFO, Controller that updates an Indexer; bounded
//	direct      Reflector, and a ReflectorStore that updates an Indexer
//
// "Bounded" paths bound the events in flight. The benchmark reports the CPU time per event at full
// speed and at 1000 events a second, and the memory per object of a list.
func BenchmarkPath(b *testing.B) {
	for _, path := range []struct {
		name string
		run  func(context.Context, cache.ListerWatcher, *inFlight, func())
	}{{"shared", sharedPath}, {"controller", controllerPath}, {"direct", directPath}} {
		b.Run(path.name+"/full", func(b *testing.B) { benchPath(b, path.run, 0) })
		b.Run(path.name+"/1000a_second", func(b *testing.B) { benchPath(b, path.run, time.Millisecond) })
		b.Run(path.name+"/memory", func(b *testing.B) { benchMemory(b, path.run) })
	}
}

// inFlight bounds the events in flight.
type inFlight struct{ slots chan struct{} }

func (f *inFlight) enter() {
	if f.slots != nil {
		f.slots <- struct{}{}
	}
}

func (f *inFlight) leave() {
	if f.slots != nil {
		<-f.slots
	}
}

var benchIndexers = func() cache.Indexers {
	return cache.Indexers{"name": func(o any) ([]string, error) { return o.(*entry).values[0], nil }}
}

func sharedPath(ctx context.Context, lw cache.ListerWatcher, f *inFlight, took func()) {
	f.slots = make(chan struct{}, 4096)
	shared := cache.NewSharedIndexInformerWithOptions(lw, &entry{}, cache.SharedIndexInformerOptions{Indexers: benchIndexers()})
	known := map[string]*object.Object{}
	silent := logr.Discard()
	take := func(o any) {
		e := o.(*entry)
		known[e.Key()] = e.Object
		if e.arrival != nil {
			e.arrival = nil
			f.leave()
		}
		took()
	}
	_, _ = shared.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, o any) { take(o) }, DeleteFunc: take,
	}, cache.HandlerOptions{Logger: &silent})
	shared.RunWithContext(ctx)
	runtime.KeepAlive(known)
}

func controllerPath(ctx context.Context, lw cache.ListerWatcher, f *inFlight, took func()) {
	f.slots = make(chan struct{}, 4096)
	indexer := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, benchIndexers())
	queue := cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
		KeyFunction: cache.MetaNamespaceKeyFunc, AtomicEvents: true, UnlockWhileProcessing: true, EmitDeltaTypeBookmark: true,
	})
	cache.New(&cache.Config{Queue: queue, ListerWatcher: lw, ObjectType: &entry{}, Process: func(obj any, _ bool) error {
		for _, d := range obj.(cache.Deltas) {
			switch d.Type {
			case cache.ReplacedAll:
				all := d.Object.(cache.ReplacedAllInfo)
				_ = indexer.Replace(all.Objects, all.ResourceVersion)
				for range all.Objects {
					took()
				}
			case cache.Bookmark:
			default:
				_, _, _ = indexer.Get(d.Object)
				_ = indexer.Update(d.Object)
				d.Object.(*entry).arrival = nil
				f.leave()
				took()
			}
		}
		return nil
	}}).RunWithContext(ctx)
}

type directStore struct {
	cache.Indexer
	took func()
}

func (s directStore) Update(o any) error {
	_, _, _ = s.Get(o)
	err := s.Indexer.Update(o)
	o.(*entry).arrival = nil
	s.took()
	return err
}

func (s directStore) Replace(all []any, version string) error {
	err := s.Indexer.Replace(all, version)
	for range all {
		s.took()
	}
	return err
}

func directPath(ctx context.Context, lw cache.ListerWatcher, _ *inFlight, took func()) {
	store := directStore{cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, benchIndexers()), took}
	cache.NewReflectorWithOptions(lw, &entry{}, store, cache.ReflectorOptions{}).RunWithContext(ctx)
}

const benchObjects = 10_000

func benchEntry(n, version int) *entry {
	return &entry{
		Object:  object.FromIdentity("shop", fmt.Sprintf("o%05d", n), fmt.Sprintf("u%05d", n), fmt.Sprint(version)),
		values:  [][]string{{fmt.Sprint(n % 100)}},
		arrival: &arrival{},
	}
}

// benchSource lists a given number of objects, and watches the channel events.
func benchSource(objects int, events <-chan watch.Event) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
			list := &internalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for n := range objects {
				e := benchEntry(n, 1)
				e.arrival = nil
				list.Items = append(list.Items, e)
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			return benchWatch(events), nil
		},
	}, lister{})
}

// lister makes client-go list.
type lister struct{}

func (lister) IsWatchListSemanticsUnSupported() bool { return true }

type benchWatch <-chan watch.Event

func (w benchWatch) ResultChan() <-chan watch.Event { return w }
func (benchWatch) Stop()                            {}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchPath(b *testing.B, run func(context.Context, cache.ListerWatcher, *inFlight, func()), pause time.Duration) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	events := make(chan watch.Event, readAhead)
	var flight inFlight
	var took atomic.Int64
	var done sync.WaitGroup
	done.Go(func() { run(ctx, benchSource(benchObjects, events), &flight, func() { took.Add(1) }) })
	await(b, "the list", func() bool { return took.Load() == benchObjects })
	all := make([]*entry, 20_000)
	for n := range all {
		all[n] = benchEntry(n%benchObjects, n+2)
	}
	runtime.GC()
	b.ResetTimer()
	before := cpu()
	send := func(e *entry) {
		e.arrival = &arrival{}
		flight.enter()
		events <- watch.Event{Type: watch.Modified, Object: e}
	}
	if pause == 0 {
		for n := range b.N {
			send(all[n%len(all)])
		}
	} else {
		tick := time.NewTicker(pause)
		for n := range b.N {
			<-tick.C
			send(all[n%len(all)])
		}
		tick.Stop()
	}
	await(b, "the events", func() bool { return took.Load() == int64(benchObjects+b.N) })
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/event")
	cancel()
	done.Wait()
}

func benchMemory(b *testing.B, run func(context.Context, cache.ListerWatcher, *inFlight, func())) {
	const objects = 100_000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
		var flight inFlight
		var took atomic.Int64
		var done sync.WaitGroup
		done.Go(func() { run(ctx, benchSource(objects, make(chan watch.Event)), &flight, func() { took.Add(1) }) })
		await(b, "the list", func() bool { return took.Load() == objects })
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/objects, "bytes/object")
		cancel()
		done.Wait()
	}
}
