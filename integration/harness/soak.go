package harness

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Soak reports whether `make soak` runs.
func Soak() bool { return os.Getenv("INFORMD_SOAK") != "" }

func NeedSoak(t *testing.T) {
	t.Helper()
	if !Soak() {
		t.Skip("takes long; make soak runs it")
	}
}

// Lacks ends a test that needs something which can be installed, and is not here. It skips the test,
// or fails it if $INFORMD_SKIP_NOTHING is set, as CI does.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("INFORMD_SKIP_NOTHING") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Seed returns $INFORMD_SEED, or a random seed, and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	n := rand.Uint64() >> 32
	if text := os.Getenv("INFORMD_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("INFORMD_SEED: %v", err)
		}
	}
	t.Logf("INFORMD_SEED=%d", n)
	return n
}

// Unwritten is how long before a process is killed an event may have been delivered without its
// answer being written: 10 ms, as documented, and the answer's way. A busy machine may need a tenth
// of a second for that, and more with the race detector.
var Unwritten = map[bool]time.Duration{
	false: 100 * time.Millisecond, true: 400 * time.Millisecond,
}[HasRace]

// Stalls measures how long the machine keeps a process waiting, until the test ends. It returns the
// longest time by now by which a sleep of 10 ms was too long: what a busy machine adds to [Unwritten].
func Stalls(t testing.TB) func() time.Duration {
	const nap = 10 * time.Millisecond
	var longest atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			began := time.Now()
			time.Sleep(nap)
			longest.Store(max(longest.Load(), int64(time.Since(began)-nap)))
		}
	}()
	t.Cleanup(func() { <-ended })
	return func() time.Duration { return time.Duration(longest.Load()) }
}
