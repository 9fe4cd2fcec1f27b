package main

import (
	"runtime"
	"strconv"
	"sync/atomic"
)

// counter is a tally that several goroutines add to.
type counter struct{ n, sum atomic.Int64 }

func (c *counter) add(resourceVersion string) {
	version, _ := strconv.ParseInt(resourceVersion, 10, 64) // 0 shows in the sum
	c.sum.Add(version)
	c.n.Add(1)
}

func (c *counter) tally() tally {
	n := c.n.Load() // first: who sees the last of n sees its sum
	return tally{int(n), c.sum.Load()}
}

// heap returns the bytes in use after garbage collection. A second collection frees what finalizers
// held.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
