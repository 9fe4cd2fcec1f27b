package host_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/host"
)

// BenchmarkHandle tells what one event of 3 KB costs with a handler that does nothing: the CPU time of both processes and
// how many events share a message, with so many in flight; and how long one takes on its own, there and back.
func BenchmarkHandle(b *testing.B) {
	for _, inFlight := range []int{1, 8, 32} {
		b.Run(fmt.Sprint("inflight=", inFlight), func(b *testing.B) { benchmarkHandle(b, inFlight) })
	}
}

func benchmarkHandle(b *testing.B, inFlight int) {
	ctx := b.Context()
	s := spec("echo")
	s.Concurrency = inFlight
	dir, err := os.MkdirTemp("/tmp", "ih")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	h := host.New(s, host.Options{RunDir: dir})
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	if err := h.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	pid := h.Status().PID
	payload := append(append([]byte(`{"data":"`), bytes.Repeat([]byte("x"), 3000)...), `"}`...)

	var next atomic.Int64
	work := func(n int64) (took []time.Duration) {
		next.Store(0)
		var wg sync.WaitGroup
		for w := range inFlight {
			wg.Go(func() {
				ev := pod(fmt.Sprint("done-", w))
				ev.Object, ev.Old = payload, nil
				for next.Add(1) <= n {
					start := time.Now()
					if _, err := h.Handle(ctx, ev); err != nil {
						b.Error(err)
						return
					}
					if inFlight == 1 {
						took = append(took, time.Since(start))
					}
				}
			})
		}
		wg.Wait()
		return took
	}
	work(2000) // past the start of either process, of TLS's small records and of the heaps' growth
	counts := h.Status().Counts
	own, other := cpuTime(b, os.Getpid()), cpuTime(b, pid)
	b.ReportAllocs()
	b.ResetTimer()
	took := work(int64(b.N))
	b.StopTimer()
	own, other = cpuTime(b, os.Getpid())-own, cpuTime(b, pid)-other
	perEvent := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(b.N) }
	b.ReportMetric(perEvent(own+other), "cpu-µs/op")
	b.ReportMetric(perEvent(other), "handler-µs/op")
	if inFlight == 1 {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
		return
	}
	now := h.Status().Counts
	b.ReportMetric(float64(now.Sent-counts.Sent)/float64(now.Batches-counts.Batches), "events/batch")
}

// cpuTime is what a process has used of the CPU so far.
func cpuTime(b *testing.B, pid int) time.Duration {
	if pid == os.Getpid() {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("no /proc: ", err)
	}
	// The fields utime and stime, in ticks of 10 ms, are the 12th and 13th after the command's closing parenthesis.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, f := range fields[11:13] {
		var n int64
		if _, err := fmt.Sscan(string(f), &n); err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
