package apistub_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// TestSharedInformer runs client-go's own informer against everything that the server can do.
func TestSharedInformer(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		name := map[bool]string{true: "WatchList", false: "list and watch"}[watchList]
		t.Run(name, func(t *testing.T) {
			s, client := newServer(t)
			s.SetWatchList(watchList)
			s.Load(pods, 1200, nil) // more than a page of the reflector, and more than the history
			inf := runInformer(t, client)
			s.AwaitWatches(pods, 1)

			s.Apply(pods, pod("a", "web"))
			inf.await(t, "add shop/a")

			// Changes during a broken watch arrive when it resumes, without another list.
			before := s.Requests()
			s.Fail(busy)
			s.DropWatches()
			s.Apply(pods, pod("a", "db"))
			s.Fail(nil)
			inf.await(t, "update shop/a")
			after := s.Requests()
			if diff := cmp.Diff(before.Lists, after.Lists); diff != "" {
				t.Errorf("resuming took a list: %s", diff)
			}
			if after.WatchLists[pods] > before.WatchLists[pods] {
				t.Error("resuming took a WatchList")
			}

			// After 410, the informer finds a missed deletion by comparing with the list.
			s.Fail(busy)
			s.DropWatches()
			s.Delete(pods, "shop", "a")
			s.Expire()
			s.Fail(nil)
			inf.await(t, "delete shop/a (final state unknown)")
			s.AwaitWatches(pods, 1)

			// Garbage ends a watch, but not the reflector.
			s.Garbage(pods, "garbage\n")
			s.Apply(pods, pod("z", "web"))
			inf.await(t, "add shop/z")

			got := s.Requests()
			if (got.Lists[pods] > 0) == watchList {
				t.Errorf("%d lists with WatchList %v", got.Lists[pods], watchList)
			}
		})
	}
}

// busy is a response after which the reflector repeats the request.
func busy(*http.Request) *metav1.Status {
	return &apierrors.NewTooManyRequestsError("busy").ErrStatus
}

// recorder records the calls of an informer.
type recorder struct {
	mu  sync.Mutex
	got map[string]chan struct{} // closed once it was seen
}

func (r *recorder) seen(what string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got[what] == nil {
		r.got[what] = make(chan struct{})
	}
	return r.got[what]
}

func (r *recorder) record(what string) {
	ch := r.seen(what)
	select {
	case <-ch:
	default:
		close(ch)
	}
}

func (r *recorder) await(t *testing.T, what string) {
	t.Helper()
	select {
	case <-r.seen(what):
	case <-time.After(time.Minute):
		t.Fatalf("never came: %s", what)
	}
}

// runInformer runs a shared informer of pods over the dynamic client until the test's end.
func runInformer(t *testing.T, client dynamic.Interface) *recorder {
	t.Helper()
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(pods).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (kwatch.Interface, error) {
			return client.Resource(pods).Watch(ctx, o)
		},
	}, client)
	inf := cache.NewSharedIndexInformerWithOptions(lw, &unstructured.Unstructured{},
		cache.SharedIndexInformerOptions{Indexers: cache.Indexers{}})
	r := &recorder{got: map[string]chan struct{}{}}
	key := func(o any) string { k, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(o); return k }
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.record("add " + key(o)) },
		UpdateFunc: func(_, o any) { r.record("update " + key(o)) },
		DeleteFunc: func(o any) {
			if _, unknown := o.(cache.DeletedFinalStateUnknown); unknown {
				r.record("delete " + key(o) + " (final state unknown)")
			} else {
				r.record("delete " + key(o))
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { inf.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		t.Fatal("never synced")
	}
	if n := len(inf.GetStore().ListKeys()); n != 1200 {
		t.Fatalf("synced with %d objects", n)
	}
	return r
}
