package source

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// directory is a discovery client whose answers come from a function.
type directory struct {
	discovery.ServerResourcesInterfaceWithContext
	asked  atomic.Int32
	answer func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

func (d *directory) ServerResourcesForGroupVersionWithContext(ctx context.Context, gv string) (*metav1.APIResourceList, error) {
	d.asked.Add(1)
	return d.answer(ctx, gv)
}

func TestDiscoveryAnswers(t *testing.T) {
	list := &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "widgets", Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"}},
		{Name: "tickets", Namespaced: true, Verbs: metav1.Verbs{"create"}},
		{Name: "walls", Verbs: metav1.Verbs{"list", "watch"}},
	}}
	group := schema.GroupResource{Group: "example.com"}
	for _, c := range []struct {
		resource, namespace string
		err                 error
		want                availability
		why                 string
	}{
		{resource: "widgets", want: isServed},
		{resource: "widgets", namespace: "shop", want: isServed},
		{resource: "gadgets", want: isAbsent, why: "the cluster does not serve example.com/v1/gadgets"},
		{resource: "tickets", want: isUnusable, why: "example.com/v1/tickets does not support list"},
		{resource: "walls", namespace: "shop", want: isUnusable, why: "example.com/v1/walls has no namespaces: leave namespaces out"},
		{err: apierrors.NewNotFound(group, ""), want: isAbsent, why: "the cluster does not serve example.com/v1"},
		{
			resource: "widgets", err: apierrors.NewForbidden(group, "", errors.New("no")), want: isSilent,
			why: "the cluster does not seem to serve example.com/v1/widgets, and discovery is forbidden",
		},
		{err: errors.New("down"), want: isUnknown, why: "discovery: down"},
	} {
		s := newServed(&directory{answer: func(context.Context, string) (*metav1.APIResourceList, error) { return list, c.err }}, nil, clock.RealClock{})
		sel := Selection{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: c.resource}, Namespace: c.namespace}
		if got, why := s.ask(t.Context(), sel); got != c.want || why != c.why {
			t.Errorf("%v: %v because of %q, want %v, %q", sel, got, why, c.want, c.why)
		}
	}
}

// Informers that wait for one group version share a request. A discovery request that hangs fails.
func TestDiscoveryIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var here atomic.Bool
		d := &directory{answer: func(ctx context.Context, gv string) (*metav1.APIResourceList, error) {
			if gv == "hangs/v1" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if !here.Load() {
				return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
			}
			return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "widgets", Verbs: metav1.Verbs{"list", "watch"}}}}, nil
		}}
		s := newServed(d, nil, clock.RealClock{})
		back := make(chan struct{})
		for range 20 {
			go func() {
				s.wait(t.Context(), Selection{Resource: widgets}, 2*time.Second, func() {})
				back <- struct{}{}
			}()
		}
		time.Sleep(time.Minute)
		if n := d.asked.Load(); n < 10 || n > 61 {
			t.Errorf("twenty asked %d times in a minute", n)
		}
		here.Store(true)
		for range 20 {
			<-back
		}
		began := time.Now()
		if a, _ := s.ask(t.Context(), Selection{Resource: schema.GroupVersionResource{Group: "hangs", Version: "v1"}}); a != isUnknown {
			t.Errorf("the answer is %v", a)
		}
		if took := time.Since(began); took != discoveryTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

// If a server ends each watch as soon as it begins, the informer opens watches at longer and longer
// intervals.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{clock: clock.RealClock{}}
		var total time.Duration
		for n := range 20 {
			delay, often := p.next(time.Second, 10*time.Second)
			if (n == 0) != (delay == 0) || often != (n > 3) {
				t.Errorf("watch %d: %v, %v", n, delay, often)
			}
			total += delay
			p.began()
		}
		if total < time.Minute || total > 200*time.Second {
			t.Errorf("twenty watches took %v", total)
		}
		time.Sleep(time.Second)
		if delay, often := p.next(time.Second, 10*time.Second); delay != 0 || often {
			t.Errorf("after one that lasted: %v, %v", delay, often)
		}
	})
}
