package harness

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Soak tells whether `make soak` runs.
func Soak() bool { return os.Getenv("INFORMD_SOAK") != "" }

func NeedSoak(t *testing.T) {
	t.Helper()
	if !Soak() {
		t.Skip("takes long; make soak runs it")
	}
}

// Seed is what $INFORMD_SEED says, or another one each time.
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

// Unwritten is for how long what was acknowledged may be unknown to the disk: a second at most, as
// the documentation has it; with the race detector and other tests beside this one, a busy machine
// may take as much again to write it.
var Unwritten = map[bool]time.Duration{false: time.Second, true: 2 * time.Second}[RaceEnabled]
