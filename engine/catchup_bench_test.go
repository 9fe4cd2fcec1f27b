package engine

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	labelsets "k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// divided are synthetic objects: the first in the namespace stays, all others in the namespace goes.
type divided int

func (d divided) Len() int { return int(d) }

func (divided) Identity(i int) (namespace, name string, of labelsets.Set) {
	return [...]string{"stays", "goes"}[min(i, 1)], fmt.Sprintf("o-%07d", i), nil
}

func (d divided) Append(b []byte, i, _ int, resourceVersion int64) []byte {
	namespace, name, _ := d.Identity(i)
	return fmt.Appendf(b, `{"metadata":{"name":%q,"namespace":%q,"uid":"u-%d","resourceVersion":"%d"},"data":{"size":"%d"}}`,
		name, namespace, i, resourceVersion, i%2)
}

// counter is a handler that counts its events.
type counter struct {
	teller
	n atomic.Int64
}

func (*counter) Limit() (int, bool) { return 256, false }

func (c *counter) Handle(context.Context, handler.Event) (handler.Answer, error) {
	c.n.Add(1)
	return handler.Answer{}, nil
}

// BenchmarkCatchUpAtOnce starts an engine on the state of another one, with 200,000 objects of which a
// rule must learn: because its where has changed, or because its source has left a namespace that has
// all of them but one. ms-before is how long the informer takes no step, because it has not begun to
// follow the server; ms-locked is the longest that a step may then have to wait for the informer's lock.
func BenchmarkCatchUpAtOnce(b *testing.B) {
	const objects = 200_000
	in := func(namespaces string) string {
		return strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: ["+namespaces+"]}", 1)
	}
	for name, c := range map[string]struct{ before, after string }{
		"where": {
			in("goes") + aRule("r", `, payload: 1, where: object.data.size == "1"`),
			in("goes") + aRule("r", `, payload: 1, where: object.data.size == "0"`),
		},
		"left": {in("stays, goes") + aRule("r", ", payload: 1"), in("stays") + aRule("r", ", payload: 1")},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l := newLife(b)
				l.server.Synthesize(configMaps, "ConfigMap", true, divided(objects+1))
				start := func(manifests string, n int64) (before, locked time.Duration) {
					var asked, resumed atomic.Int64
					l.server.Fail(func(r *http.Request) *metav1.Status {
						if strings.Contains(r.URL.Path, "/configmaps") {
							asked.CompareAndSwap(0, time.Now().UnixNano())
						}
						return nil
					})
					l.said = func(line string) {
						if strings.Contains(line, "resuming from the saved state") {
							resumed.Store(time.Now().UnixNano())
						}
					}
					h := new(counter)
					e, stop := l.startWith(manifests, h)
					informer := e.work().Intakes[0].Informer
					isReady := func() bool {
						return !slices.ContainsFunc(e.Status().Sources, func(s admin.SourceStatus) bool { return !s.Ready })
					}
					for h.n.Load() < n || !isReady() || catchesUp(e) {
						began := time.Now()
						informer.Look(func(func(string) *object.Object) {})
						locked = max(locked, time.Since(began))
						time.Sleep(100 * time.Microsecond)
					}
					stop()
					return time.Duration(asked.Load() - resumed.Load()), locked
				}
				start(c.before, objects/2)
				before, locked := start(c.after, objects)
				b.ReportMetric(float64(before.Microseconds())/1000, "ms-before")
				b.ReportMetric(float64(locked.Microseconds())/1000, "ms-locked")
			}
		})
	}
}
