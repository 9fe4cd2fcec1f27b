package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	fullNamespace  = "default"
	emptyNamespace = "empty" // does not even exist
	writers        = 8
)

// load is the objects and whoever changes them. Their field `sent` is when the change was sent, in unix nanoseconds.
type load struct {
	client  kubernetes.Interface
	objects int
	written int // updates so far, in all
}

// newLoad makes the objects.
func newLoad(ctx context.Context, cfg *rest.Config, objects int) (*load, error) {
	cfg.ContentType = "application/vnd.kubernetes.protobuf" // the writers share the machine with what is measured
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &load{client: client, objects: objects}, each(objects, func(i int) error {
		_, err := client.CoreV1().ConfigMaps(fullNamespace).Create(ctx, object(i), metav1.CreateOptions{})
		return err
	})
}

var filler = strings.Repeat("all work and no play ", 39)

// object has about 1.3 KB as JSON, a fifth of it managedFields.
func object(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config-%06d", i)},
		Data:       map[string]string{"filler": filler, "kind": "bench", "sent": strconv.FormatInt(time.Now().UnixNano(), 10)},
	}
}

// update makes n updates, one object after the other, at a rate per second or, with 0, at full speed. It returns how
// long they took.
func (l *load) update(ctx context.Context, n, rate int) (time.Duration, error) {
	first, start := l.written, time.Now()
	l.written += n
	err := each(n, func(i int) error {
		if rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		}
		// Without a resourceVersion: nothing is read first, and nothing conflicts.
		_, err := l.client.CoreV1().ConfigMaps(fullNamespace).
			Update(ctx, object((first+i)%l.objects), metav1.UpdateOptions{})
		return err
	})
	return time.Since(start), err
}

// each calls do for 0 to n-1, from all writers, and ends at the first error.
func each(n int, do func(i int) error) error {
	var next atomic.Int64
	var group errgroup.Group
	for range writers {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					next.Store(int64(n))
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
