package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/informd/informd/integration/harness"
)

// writer writes ConfigMaps and records what it wrote. It goes on while the control plane restarts.
type writer struct {
	t       testing.TB
	client  typed.ConfigMapInterface
	objects []*written
	byName  map[string]*written

	mu   sync.Mutex
	done int           // writes
	more chan struct{} // closed and replaced when done has grown
}

// written is the history of one object. One goroutine at a time writes it.
type written struct {
	name    string
	keep    bool // it is not deleted
	uid     string
	created string // resource versions
	changed string
	deleted bool
}

// newWriter plans n objects, of which one in ten is not deleted.
func newWriter(t testing.TB, client kubernetes.Interface, namespace string, n int) *writer {
	w := &writer{
		t: t, client: client.CoreV1().ConfigMaps(namespace), byName: make(map[string]*written, n), more: make(chan struct{}),
	}
	for i := range n {
		o := &written{name: fmt.Sprintf("cm-%05d", i), keep: i%10 == 0}
		w.objects = append(w.objects, o)
		w.byName[o.name] = o
	}
	return w
}

// each calls do for every object from many goroutines, in no particular order.
func (w *writer) each(do func(*written)) {
	todo := make(chan *written) // unbuffered: a goroutine takes an object when it is done with the last
	var workers sync.WaitGroup
	for range loadWriters {
		workers.Go(func() {
			for o := range todo {
				if w.t.Context().Err() == nil && !w.t.Failed() {
					do(o)
				}
			}
		})
	}
	for _, o := range w.objects {
		todo <- o
	}
	close(todo)
	workers.Wait()
}

func (w *writer) create(o *written) {
	w.write(o, "create", func(ctx context.Context) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: o.name}, Data: map[string]string{"step": "created"}}
		got, err := w.client.Create(ctx, cm, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an earlier attempt took effect, and its response was lost
			got, err = w.client.Get(ctx, o.name, metav1.GetOptions{})
		}
		if err == nil {
			o.uid, o.created = string(got.UID), got.ResourceVersion
		}
		return err
	})
}

// change is a patch that changes nothing when it is repeated.
func (w *writer) change(o *written) {
	w.write(o, "patch", func(ctx context.Context) error {
		got, err := w.client.Patch(ctx, o.name, types.MergePatchType, []byte(`{"data":{"step":"changed"}}`), metav1.PatchOptions{})
		if err == nil {
			o.changed = got.ResourceVersion
		}
		return err
	})
}

// remove deletes the object, unless it is one that stays.
func (w *writer) remove(o *written) {
	if o.keep {
		return
	}
	w.write(o, "delete", func(ctx context.Context) error {
		err := w.client.Delete(ctx, o.name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // not found: an earlier attempt took effect
			return err
		}
		o.deleted = true
		return nil
	})
}

// write tries until it succeeds.
func (w *writer) write(o *written, what string, attempt func(context.Context) error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), harness.Patience)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := attempt(once)
		cancel()
		if err == nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond): // the control plane may be restarting
		case <-ctx.Done():
			w.t.Errorf("%s %s: %v", what, o.name, err)
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	close(w.more)
	w.more = make(chan struct{})
}

// writes returns how many writes are done.
func (w *writer) writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

// awaitWrites waits until so many writes are done. Otherwise it returns false: the writers stop once
// the test has failed.
func (w *writer) awaitWrites(n int) bool {
	last, since := 0, time.Now()
	for {
		w.mu.Lock()
		done, more := w.done, w.more
		w.mu.Unlock()
		switch {
		case done >= n:
			return true
		case w.t.Failed():
			return false
		case done > last:
			last, since = done, time.Now()
		case time.Since(since) > 2*harness.Patience:
			w.t.Errorf("the writers stand still after %d writes", done)
			return false
		}
		select {
		case <-more:
		case <-time.After(100 * time.Millisecond):
		}
	}
}
