package host_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/internal/procfs"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// BenchmarkHandle measures an event of 3 KB with a handler that does nothing: the time of one
// alone, there and back; and with several in flight, the CPU time of both processes and the events
// per message.
func BenchmarkHandle(b *testing.B) {
	for _, inFlight := range []int{1, 8, 32} {
		b.Run(fmt.Sprint("inflight=", inFlight), func(b *testing.B) { benchmarkProcess(b, inFlight) })
	}
}

// BenchmarkRemoteHandle measures the same with one endpoint behind TCP and mutual TLS, on the same
// machine.
func BenchmarkRemoteHandle(b *testing.B) {
	for _, inFlight := range []int{1, 8, 32} {
		b.Run(fmt.Sprint("inflight=", inFlight), func(b *testing.B) {
			f := newFarm(b)
			p := f.process(1, "QUIET=1")
			f.resolve(1)
			f.spec.Concurrency = inFlight
			r := f.remote(host.Options{})
			if err := r.Ready(b.Context()); err != nil {
				b.Fatal(err)
			}
			benchmarkHandle(b, inFlight, r, p.cmd.Process.Pid)
		})
	}
}

func benchmarkProcess(b *testing.B, inFlight int) {
	ctx, cancel := context.WithCancel(b.Context())
	s := spec("echo")
	s.Concurrency = inFlight
	dir, err := os.MkdirTemp("/tmp", "ih")
	if err != nil {
		b.Fatal(err)
	}
	h := host.New(s, host.Options{RunDir: dir})
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	defer func() { cancel(); <-ended; _ = os.RemoveAll(dir) }()
	if err := h.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	benchmarkHandle(b, inFlight, h, h.Status().PID)
}

// benched is a Host or a Remote.
type benched interface {
	handler.Handler
	Submit(context.Context, *handler.Event, func(handler.Answer, error))
	Status() host.Status
}

func benchmarkHandle(b *testing.B, inFlight int, h benched, pid int) {
	heap := make([]byte, 64<<20) // garbage is collected as seldom as in a daemon with a cache
	defer runtime.KeepAlive(heap)
	ctx := b.Context()
	events := make([]handler.Event, 10_000)
	payload := append(append([]byte(`{"data":"`), bytes.Repeat([]byte("x"), 3000)...), `"}`...)
	for i := range events {
		events[i] = pod(fmt.Sprint("done-", i))
		events[i].Object, events[i].Old = payload, nil
	}
	deliver := func(n int) {
		room := make(chan error, inFlight)
		for range inFlight {
			room <- nil
		}
		for i := range n + inFlight { // the last ones only wait
			if err := <-room; err != nil {
				b.Fatal(err)
			}
			if i < n {
				h.Submit(ctx, &events[i%len(events)], func(_ handler.Answer, err error) { room <- err })
			}
		}
	}
	var took []time.Duration
	if inFlight == 1 {
		deliver = func(n int) {
			took = took[:0]
			for i := range n {
				start := time.Now()
				if _, err := h.Handle(ctx, events[i%len(events)]); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
		}
	}

	deliver(2000) // past the start of either process, TLS's small records and the first growth of the heaps
	counts := h.Status().Counts
	own, other := cpuTime(b, os.Getpid()), cpuTime(b, pid)
	b.ReportAllocs()
	b.ResetTimer()
	deliver(b.N)
	b.StopTimer()
	own, other = cpuTime(b, os.Getpid())-own, cpuTime(b, pid)-other
	b.ReportMetric(float64((own+other).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(other.Nanoseconds())/1e3/float64(b.N), "handler-µs/op")
	if inFlight == 1 {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
		return
	}
	now := h.Status().Counts
	b.ReportMetric(float64(now.Sent-counts.Sent)/float64(now.Batches-counts.Batches), "events/batch")
}

// cpuTime returns the CPU time that a process has used so far.
func cpuTime(b *testing.B, pid int) time.Duration {
	if pid == os.Getpid() {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	p, err := procfs.Read(pid)
	if err != nil {
		b.Skip("no /proc: ", err)
	}
	return p.CPU
}
