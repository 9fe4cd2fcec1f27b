package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/integration/harness"
)

// However its neighbours crash, a healthy handler gets everything in order at the first attempt.
// Afterwards the daemon holds no more than before. Pauses between restarts grow to half a minute,
// so a thousand crashes would take hours; plugins/host tests those with shorter pauses.
func TestCrashingNeighbours(t *testing.T) {
	t.Parallel()
	crashes, rate := 20, 100
	if harness.Soak() {
		crashes, rate = 100, 1000
	}
	bad := []string{"exits", "faults", "exits-at-start", "is-killed", "loses-its-shim"}
	s := harness.SetStage(t, harness.Victims(bad...))
	s.AwaitRunning(append(bad, "steady")...)
	s.AwaitDelivered()
	before := s.Holdings()
	s.Play(rate)
	s.Tempt(true)
	tempted := time.Now()
	count := func() int { return s.Restarts(bad...) }
	s.PollFor(20*time.Minute, "crashes", func() bool {
		for _, handler := range bad[2:] {
			for _, pid := range s.Playing("victim", handler) {
				if handler == "loses-its-shim" {
					pid = harness.ShimOf(pid)
				}
				if pid > 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
				}
			}
		}
		return count() >= crashes
	})
	over := time.Now()
	n := count()
	s.Tempt(false)
	s.Rest()

	entries := s.WantSteady()
	t.Logf("%d crashes in %v beside %d events per second; from change to handler: %s",
		n, over.Sub(tempted).Round(time.Second), rate, harness.Summary(s.Took(entries, tempted, over)))
	if got := s.Restarts("steady"); got != 0 {
		t.Errorf("steady was started %d times again", got)
	}
	s.AwaitRunning(bad...)
	s.AwaitDelivered()
	s.WantHoldings(before, "crashes")
	s.Stop()
}
