package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// One operation is a change of an object on its way from Offer to Done, of 10,000 objects, with a handler that does
// nothing.
func BenchmarkDelivery(b *testing.B) {
	const objects = 10_000
	matches := make([]rule.Match, objects)
	for i := range matches {
		matches[i] = updated(fmt.Sprint("web", i), fmt.Sprint("u", i), 2)
	}
	var ended sync.WaitGroup
	h := handler.Func(func(context.Context, handler.Event) (handler.Answer, error) { return handler.Answer{}, nil })
	d := New(Handler{Handler: h}, NewMemory(MemoryOptions{}), Options{
		Observer: Observer{Delivered: func(Delivery) { ended.Done() }},
	})
	l := d.Lane("r", pods, LaneOptions{Every: true})
	ctx, cancel := context.WithCancel(b.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = d.Run(ctx)
	}()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%objects == 0 {
			ended.Wait()
		}
		ended.Add(1)
		l.Offer(matches[i%objects])
	}
	ended.Wait()
	cancel()
	<-stopped
}
