package action

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// library is a discovery that counts its requests.
type library struct {
	discovery.ServerResourcesInterfaceWithContext
	asked      int
	namespaced bool
	err        error
	hang       bool
}

func (l *library) ServerResourcesForGroupVersionWithContext(ctx context.Context, _ string) (*metav1.APIResourceList, error) {
	l.asked++
	if l.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: l.namespaced}}}, l.err
}

func TestKindsAreDiscoveredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &library{namespaced: true}
		k := newKinds(l, time.Now)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got, f := k.of(t.Context(), pods); f != nil || got != (kind{"Pod", true}) {
					t.Errorf("got kind %+v, failure %v", got, f)
				}
			})
		}
		all.Wait()
		if l.asked != 1 {
			t.Errorf("asked %d times", l.asked)
		}
		// kinds asks for a missing resource once a second, and keeps what it knows of others.
		absent := pods
		absent.Resource = "bods"
		began := time.Now()
		for time.Since(began) < 10*time.Second {
			if _, f := k.of(t.Context(), absent); f == nil || f.reason != noResource || !strings.Contains(f.text, "does not serve v1/bods") {
				t.Fatalf("got failure %v", f)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if l.asked < 10 || l.asked > 12 {
			t.Errorf("asked %d times in ten seconds", l.asked)
		}
		// After forget, kinds asks again and finds that a kind has changed.
		l.namespaced = false
		if got, _ := k.of(t.Context(), pods); !got.namespaced {
			t.Error("kinds asked again although nobody called forget")
		}
		time.Sleep(time.Second)
		k.forget(pods.GroupVersion())
		if got, f := k.of(t.Context(), pods); f != nil || got.namespaced {
			t.Errorf("got kind %+v, failure %v", got, f)
		}
		l.err = errors.New("broken\nfor now")
		k.forget(pods.GroupVersion())
		time.Sleep(time.Second)
		l.namespaced = true
		if _, f := k.of(t.Context(), absent); f == nil || f.reason != again || f.text != "discovery: broken for now" {
			t.Errorf("got failure %v", f)
		}
	})
}

func TestDiscoveryThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKinds(&library{hang: true}, time.Now)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, f := k.of(short, pods); f == nil || f.reason != again {
			t.Errorf("got failure %v", f)
		}
		began := time.Now()
		if _, f := k.of(t.Context(), pods); f == nil || f.reason != again {
			t.Errorf("got failure %v", f)
		}
		if took := time.Since(began); took != requestTimeout {
			t.Errorf("the request took %v, want %v", took, requestTimeout)
		}
	})
}
