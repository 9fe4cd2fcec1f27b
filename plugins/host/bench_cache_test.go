package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/cache"
	"github.com/informd/informd/plugins/serve"
)

// BenchmarkCacheRead measures reads of the cache by an index, one after the other, of 1, 10 and 100
// objects of 2 KB. It also reports the ratio to an empty call from the same process over the same
// kind of connection.
func BenchmarkCacheRead(b *testing.B) {
	for _, objects := range []int{1, 10, 100} {
		b.Run(fmt.Sprint("objects=", objects), func(b *testing.B) { benchmarkCacheRead(b, objects) })
	}
}

func benchmarkCacheRead(b *testing.B, objects int) {
	dir, err := os.MkdirTemp("/tmp", "ih")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	echo := filepath.Join(dir, "echo")
	listener, err := net.Listen("unix", echo)
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	same := sameObjects{n: objects, json: fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 2000))}
	s := spec("bench-reader")
	s.Read = []string{"pods"}
	ctx, cancel := context.WithCancel(b.Context())
	h := host.New(s, host.Options{RunDir: dir, Cache: same})
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := h.Ready(ctx); err != nil {
		b.Fatal(err)
	}

	run := func(n int) (out benchResult) {
		ev := pod("bench")
		ev.Payload = fmt.Appendf(nil, `{"n":%d,"echo":%q}`, n, echo)
		answer, err := h.Handle(ctx, ev)
		if err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(answer.Actions[0].Object, &out); err != nil {
			b.Fatal(err)
		}
		return out
	}
	run(500)
	var sum benchResult
	for left := b.N; left > 0; left -= 1000 { // in turns, and within the event's time limit
		took := run(min(left, 1000))
		sum.Read += took.Read
		sum.Echo += took.Echo
	}
	b.ReportMetric(0, "ns/op") // it would be of both
	b.ReportMetric(float64(sum.Read.Nanoseconds())/1e3/float64(b.N), "read-µs")
	b.ReportMetric(float64(sum.Echo.Nanoseconds())/1e3/float64(b.N), "echo-µs")
	b.ReportMetric(float64(sum.Read)/float64(sum.Echo), "read/echo")
}

type benchResult struct{ Read, Echo time.Duration }

// benchReader makes a number of reads, and as many empty calls.
type benchReader struct{ cache handler.Cache }

func (r *benchReader) UseCache(c handler.Cache) { r.cache = c }

func (r *benchReader) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	var order struct {
		N    int
		Echo string
	}
	if err := json.Unmarshal(ev.Payload, &order); err != nil {
		return handler.Answer{}, err
	}
	conn, err := grpc.NewClient("unix:"+order.Echo, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return handler.Answer{}, err
	}
	defer func() { _ = conn.Close() }()
	client := grpc_health_v1.NewHealthClient(conn)
	if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		return handler.Answer{}, err
	}
	if _, err := r.cache.ByIndex(ctx, "pods", "byNode", "node-1"); err != nil {
		return handler.Answer{}, err
	}
	var took benchResult
	for range order.N {
		began := time.Now()
		if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			return handler.Answer{}, err
		}
		between := time.Now()
		if _, err := r.cache.ByIndex(ctx, "pods", "byNode", "node-1"); err != nil {
			return handler.Answer{}, err
		}
		took.Echo += between.Sub(began)
		took.Read += time.Since(between)
	}
	object, err := json.Marshal(took)
	return handler.Answer{Actions: []handler.Action{{Verb: handler.ActionApply, Object: object}}}, err
}

// sameObjects is a cache that returns the same objects for every query.
type sameObjects struct {
	n    int
	json []byte
}

func (s sameObjects) Names() []string                                    { return []string{"pods"} }
func (s sameObjects) Open(context.Context, string) (cache.Source, error) { return s, nil }
func (s sameObjects) Get(string, string) ([]byte, bool)                  { return s.json, true }
func (s sameObjects) List(string, string) (cache.Objects, error)         { return s, nil }
func (s sameObjects) ByIndex(string, string) (cache.Objects, bool)       { return s, true }
func (s sameObjects) IndexValues(string) ([]string, bool)                { return nil, true }
func (s sameObjects) Indexes() []string                                  { return nil }
func (s sameObjects) Len() int                                           { return s.n }
func (s sameObjects) Key(int) string                                     { return "shop/web" }
func (s sameObjects) JSON(int) []byte                                    { return s.json }

func init() {
	modes["bench-reader"] = func() { serve.Main(&benchReader{}) }
}
