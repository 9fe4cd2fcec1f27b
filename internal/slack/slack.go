// Package slack gives memory back to the operating system once a process is calm again.
//
// While a Go program allocates, its heap grows to twice what is in use, and that includes what it
// holds for a moment only. When it stops allocating it also stops collecting: the memory stays
// resident for minutes. [Release] then collects once more, and returns what is free. A process that
// was calm all the time, or never becomes calm, is left alone.
package slack

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is how often Release looks at the heap. That takes some microseconds.
	interval = 10 * time.Second
	// A process is busy if in an interval it allocates at least its resident memory divided by
	// busyShare, and calm if less than that divided by calmShare. While it is not calm, it would
	// soon need again what it gave back.
	busyShare, calmShare = 4, 16
	// A collection is worth its time once the process has allocated as much as its live heap
	// divided by liveShare since the last one by Release. So Release adds at most liveShare
	// collections to each that Go makes by itself, even if the process is busy now and then.
	liveShare = 2
)

// Release returns memory that nobody uses whenever the process becomes calm after it was busy,
// within two intervals of 10 seconds, until ctx ends. It needs one goroutine for the whole process.
func Release(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	read := newReader()
	w := watch{last: read()}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if w.isDue(read()) {
			debug.FreeOSMemory() // collects, and returns all that is free
			w.release(read())
		}
	}
}

// reading is what the runtime says about memory, in bytes.
type reading struct {
	allocated uint64 // since the process began
	live      uint64 // in use when the last collection ended
	resident  uint64 // mapped and not returned
}

// newReader returns a function that reads. Its calls must not overlap.
func newReader() func() reading {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	return func() reading {
		metrics.Read(samples)
		value := func(i int) uint64 { return samples[i].Value.Uint64() }
		return reading{allocated: value(0), live: value(1), resident: value(2) - value(3)}
	}
}

// watch decides when to release memory.
type watch struct {
	last      reading // an interval ago
	allocated uint64  // reading.allocated at the last release
	wasBusy   bool    // since the last release
}

// isDue reports whether memory is to be released. It is called once an interval.
func (w *watch) isDue(now reading) bool {
	lately := now.allocated - w.last.allocated
	w.last = now
	if lately >= now.resident/busyShare {
		w.wasBusy = true
	}
	isCalm := lately < now.resident/calmShare
	return isCalm && w.wasBusy && now.allocated-w.allocated >= now.live/liveShare
}

// release notes that memory was released.
func (w *watch) release(now reading) {
	w.last, w.allocated, w.wasBusy = now, now.allocated, false
}
