package source

import (
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/engine/delta"
)

// recorder records what an informer reports.
type recorder struct {
	mu    sync.Mutex
	heard []told
	news  chan struct{} // closed and replaced at each change
}

func newRecorder() *recorder { return &recorder{news: make(chan struct{})} }

func (r *recorder) hear(all ...told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, all...)
	close(r.news)
	r.news = make(chan struct{})
}

// take returns what the informer has reported since the last take.
func (r *recorder) take() []told {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := r.heard
	r.heard = nil
	return heard
}

// await waits until the informer has reported a resourceVersion.
func (r *recorder) await(t *testing.T, whose string, version int64) {
	t.Helper()
	deadline := time.After(2 * patience) // client-go's backoff after the third relist takes up to 13 s
	for {
		r.mu.Lock()
		heard, news := slices.ContainsFunc(r.heard, func(h told) bool { return h.version == version }), r.news
		r.mu.Unlock()
		if heard {
			return
		}
		select {
		case <-news:
		case <-deadline:
			t.Fatalf("%s: waited for resourceVersion %d", whose, version)
		}
	}
}

// handler interprets client-go's notifications as any listener must. An object that a relist finds
// unchanged is no news, and a change of uid is a deletion and an addition.
func (r *recorder) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initially bool) {
			if initially {
				r.hear(tell(delta.Synced, o.(runtime.Object)))
			} else {
				r.hear(tell(delta.Added, o.(runtime.Object)))
			}
		},
		UpdateFunc: func(old, o any) {
			was, is := tell(delta.Deleted, old.(runtime.Object)), tell(delta.Updated, o.(runtime.Object))
			switch {
			case was.version == is.version:
			case was.uid != is.uid:
				r.hear(was, tell(delta.Added, is.object))
			default:
				r.hear(is)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			r.hear(tell(delta.Deleted, o.(runtime.Object)))
		},
	}
}
