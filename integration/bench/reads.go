package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/informd/informd/plugins/handler"
)

// reads measures how long a handler takes to look something up in informd's cache by an index.
type reads struct {
	at           site
	pods         int
	echo, lookup []latency // an empty call to an idle process, and a reading
	objects      []float64 // found by a reading, on average
	err          bool
}

// readCount is the number of readings per round, and of empty calls.
const readCount = 2000

// The source that the handler reads, and its index.
const (
	readSource = "nodes-of-pods"
	readIndex  = "byNode"
)

func newReads(at site, s scale) section { return &reads{at: at, pods: s.watched()} }

func (r *reads) jobs() []job {
	return []job{{name: "reading the cache", do: func(ctx context.Context) error {
		err := r.measure(ctx)
		r.err = r.err || err != nil
		return err
	}}}
}

func (r *reads) measure(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(r.at.dir, "e")
	if err != nil {
		return err
	}
	echo := filepath.Join(dir, "echo")
	listener, err := net.Listen("unix", echo)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	l, err := startLoad(ctx, r.at, onlyPods(r.pods))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	d, err := startDaemon(ctx, r.at, l, setup{
		handlers: 1, events: []string{"updated"},
		read: readSource, handler: handlerConfig{Echo: echo},
		more: fmt.Sprintf("---\n{apiVersion: informd.dev/v1alpha1, kind: Source, "+
			"metadata: {name: %s}, spec: {resource: v1/pods, indexes: {%s: object.spec.nodeName}}}\n",
			readSource, readIndex),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	warmUp := question{Ask: askReads, N: readCount / 10}
	if _, err := d.handler().ask(warmUp); err != nil {
		return err
	}
	a, err := d.handler().ask(question{Ask: askReads, N: readCount})
	if err != nil {
		return err
	}
	r.echo, r.lookup = append(r.echo, a.Reads.Echo), append(r.lookup, a.Reads.Lookup)
	r.objects = append(r.objects, a.Reads.Objects)
	return nil
}

// readings is a handler's report on its readings of the cache.
type readings struct {
	Echo, Lookup latency
	Objects      float64
}

// look times n readings and n empty calls, alternating, one at a time.
func look(ctx context.Context, cache handler.Cache, echo string, n int) (out readings, err error) {
	insecure := grpc.WithTransportCredentials(insecure.NewCredentials())
	conn, err := grpc.NewClient("unix:"+echo, insecure)
	if err != nil {
		return out, err
	}
	defer func() { _ = conn.Close() }()
	empty := grpc_health_v1.NewHealthClient(conn)
	nodes, err := cache.IndexValues(ctx, readSource, readIndex)
	if err != nil {
		return out, err
	}
	if len(nodes) == 0 {
		return out, errors.New("there are no nodes")
	}
	if _, err := empty.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil { // it connects
		return out, err
	}
	var echoes, lookups []time.Duration
	objects := 0
	for i := range n {
		began := time.Now()
		if _, err := empty.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			return out, err
		}
		between := time.Now()
		found, err := cache.ByIndex(ctx, readSource, readIndex, nodes[i%len(nodes)])
		if err != nil {
			return out, err
		}
		echoes, lookups = append(echoes, between.Sub(began)), append(lookups, time.Since(between))
		objects += len(found)
	}
	return readings{percentiles(echoes), percentiles(lookups), float64(objects) / float64(n)}, nil
}

func (r *reads) report() (table, []target) {
	rows := [][]string{{"", "p50 µs", "p99 µs", "objects"}}
	p99 := func(t latency) float64 { return t.P99 }
	rows = append(rows,
		[]string{"an empty echo", spread(r.echo, 0, p50), spread(r.echo, 0, p99), ""},
		[]string{"a reading by index", spread(r.lookup, 0, p50), spread(r.lookup, 0, p99),
			spread(r.objects, 1, func(f float64) float64 { return f })})
	read, echo := median(r.lookup, p50), median(r.echo, p50)
	return table{
			fmt.Sprintf("A handler in Go that reads the cache, "+
				"one call after the other over a unix socket; %d pods", r.pods), rows,
		}, []target{{
			what: "a handler's reading by index, " +
				"to an empty echo over the same kind of connection, p50",
			limit: 3, value: read / echo,
			from: fmt.Sprintf("µs: %.0f to %.0f", read, echo), err: r.err || len(r.lookup) == 0,
		}}
}
