package host_test

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/host"
)

// BenchmarkHandle tells the CPU time that one event of 3 KB costs on both sides of the process boundary, with a handler
// that does nothing and 32 events in flight.
func BenchmarkHandle(b *testing.B) {
	ctx := b.Context()
	s := spec("echo")
	s.Concurrency = 32
	dir, err := os.MkdirTemp("/tmp", "ih")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	h := host.New(s, host.Options{RunDir: dir})
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	if err := h.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	pid := h.Status().PID
	payload := append(append([]byte(`{"data":"`), bytes.Repeat([]byte("x"), 3000)...), `"}`...)

	b.ReportAllocs()
	before := cpuTime(b, os.Getpid()) + cpuTime(b, pid)
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			ev := pod(fmt.Sprint("done-", w))
			ev.Object, ev.Old = payload, nil
			for next.Add(1) <= int64(b.N) {
				if _, err := h.Handle(ctx, ev); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	spent := cpuTime(b, os.Getpid()) + cpuTime(b, pid) - before
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/op")
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
