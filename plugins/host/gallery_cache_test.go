//go:build linux

package host_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/serve"
)

// cacheRogues misuse the cache. The daemon's cost is bounded: goroutines per call and connection,
// memory, and the pace at which it reads requests.
func cacheRogues() []rogue {
	const calls = 16 * 32
	mayRead := func(_ *testing.T, s *host.Spec) { s.Read = []string{"pods"} }
	cached := func(_ *testing.T, o *host.Options) { o.Cache = allSources.Cache }
	works := func(t *testing.T, s *scene) { // with its own events it may be late, and be ended for that
		s.waitFor(t, "events of a handler that is at it", func() bool { return s.results.answered() >= 25 })
	}
	return []rogue{
		{does: "reads the cache without end", mode: "greedy-get", spec: mayRead, opts: cached, acts: bounded(works, 3*calls)},
		{does: "asks for lists and does not read them", mode: "greedy-list", spec: mayRead, opts: cached, acts: bounded(works, 3*calls)},
		{does: "connects to the cache without end", mode: "greedy-connect", spec: mayRead, opts: cached, acts: bounded(works, 3*calls)},
	}
}

// greedy reads as much as it can over several connections, and then handles events beside that.
func greedy(read func(context.Context, handlerpb.CacheClient) error) func() {
	return func() {
		var reads atomic.Int64
		for range 20 {
			conn, err := grpc.NewClient(os.Getenv(handlerpb.EnvCacheSocket), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				panic(err)
			}
			for range 20 {
				go func() {
					for {
						if read(context.Background(), handlerpb.NewCacheClient(conn)) == nil {
							reads.Add(1)
						}
					}
				}()
			}
		}
		serve.Main(handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
			for reads.Load() < 10 {
				time.Sleep(time.Millisecond)
			}
			return handler.Answer{}, nil
		}))
	}
}

func init() {
	addModes(map[string]func(){
		"greedy-get": greedy(func(ctx context.Context, c handlerpb.CacheClient) error {
			_, err := c.Get(ctx, &handlerpb.GetRequest{Source: "pods", Namespace: "shop", Name: "pod-0001"})
			return err
		}),
		"greedy-list": greedy(func(ctx context.Context, c handlerpb.CacheClient) error {
			ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			pages, err := c.List(ctx, &handlerpb.ListRequest{Source: "pods"})
			if err == nil {
				_, err = pages.Header()
			}
			<-ctx.Done()
			return err
		}),
		"greedy-connect": greedy(func(ctx context.Context, _ handlerpb.CacheClient) error {
			conn, err := grpc.NewClient(os.Getenv(handlerpb.EnvCacheSocket), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_, err = handlerpb.NewCacheClient(conn).Get(ctx, &handlerpb.GetRequest{Source: strings.Repeat("x", 10_000)})
			if handlerRefused(err) {
				return nil
			}
			return err
		}),
	})
}

// handlerRefused reports whether an error is a refusal by the daemon.
func handlerRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "there is no source")
}
