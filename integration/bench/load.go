package main

import (
	"context"
	"encoding/json"
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
	fullNamespace  = "bench"
	emptyNamespace = "bench-empty"
)

// load is the objects and whoever changes them. Their field `sent` is when the change was sent, in unix nanoseconds.
type load struct {
	sizes
	client  kubernetes.Interface
	filler  string
	size    int    // of an object as served, in JSON
	version string // the API server's
	written int    // updates so far, in all
}

// newLoad makes the namespaces and the objects.
func newLoad(ctx context.Context, cfg *rest.Config, s sizes) (*load, error) {
	cfg.ContentType = "application/vnd.kubernetes.protobuf" // the writers share the machine with what is measured
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	l := &load{sizes: s, client: client}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	l.version = version.GitVersion
	for _, name := range []string{fullNamespace, emptyNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	probe := l.object(0)
	probe.Namespace = emptyNamespace
	probe, err = client.CoreV1().ConfigMaps(emptyNamespace).Create(ctx, probe, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if err := client.CoreV1().ConfigMaps(emptyNamespace).Delete(ctx, probe.Name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	probe.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	bare, err := json.Marshal(probe)
	if err != nil {
		return nil, err
	}
	l.size = max(s.bytes, len(bare))
	l.filler = strings.Repeat("all work and no play ", l.size/20+1)[:l.size-len(bare)]
	return l, l.each(s.objects, func(i int) error {
		_, err := client.CoreV1().ConfigMaps(fullNamespace).Create(ctx, l.object(i), metav1.CreateOptions{})
		return err
	})
}

func (l *load) object(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fullNamespace, Name: fmt.Sprintf("config-%06d", i)},
		Data:       map[string]string{"filler": l.filler, "kind": "bench", "sent": strconv.FormatInt(time.Now().UnixNano(), 10)},
	}
}

// update makes n updates, one object after the other, at a rate per second or, with 0, at full speed. It returns how
// long they took.
func (l *load) update(ctx context.Context, n, rate int) (time.Duration, error) {
	first, start := l.written, time.Now()
	l.written += n
	err := l.each(n, func(i int) error {
		if rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		}
		// Without a resourceVersion: nothing is read first, and nothing conflicts.
		_, err := l.client.CoreV1().ConfigMaps(fullNamespace).
			Update(ctx, l.object((first+i)%l.objects), metav1.UpdateOptions{})
		return err
	})
	return time.Since(start), err
}

// each calls do for 0 to n-1, by as many writers as there are, until one fails.
func (l *load) each(n int, do func(i int) error) error {
	var next atomic.Int64
	var group errgroup.Group
	for range l.writers {
		group.Go(func() error {
			for i := int(next.Add(1) - 1); i < n; i = int(next.Add(1) - 1) {
				if err := do(i); err != nil {
					next.Store(int64(n))
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
