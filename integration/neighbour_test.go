package integration

import (
	"syscall"
	"testing"
	"time"
)

// However often its neighbours crash, in whatever way: a handler that is well gets everything, in order, at the first
// attempt, and the daemon holds afterwards what it held before. With their own pauses, which grow to half a minute, a
// thousand crashes take hours; plugins/host has them, with shorter ones.
func TestCrashingNeighbours(t *testing.T) {
	crashes, rate := 30, 400
	if soak() {
		crashes, rate = 100, 1000
	}
	bad := []string{"exits", "faults", "exits-at-start", "is-killed", "loses-its-shim"}
	s := setStage(t, victims(bad...))
	s.awaitRunning(append(bad, "steady")...)
	s.awaitDelivered()
	before := s.holdings()
	s.play(rate)
	began := time.Now()
	time.Sleep(3 * time.Second) // of work alone, to compare with

	s.tempt(true)
	tempted := time.Now()
	count := func() (n int) {
		for _, handler := range bad {
			n += s.restarts(handler)
		}
		return n
	}
	s.pollFor(20*time.Minute, "crashes", func() bool {
		for _, handler := range bad[2:] {
			for _, pid := range s.playing("victim", handler) {
				if handler == "loses-its-shim" {
					pid = shimOf(pid)
				}
				if pid > 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have gone
				}
			}
		}
		return count() >= crashes
	})
	over := time.Now()
	n := count()
	s.tempt(false)
	s.rest()

	entries := s.wantSteady()
	t.Logf("%d crashes in %v beside %d events per second; from change to handler, alone: %s; beside them: %s", n, over.Sub(tempted).Round(time.Second), rate,
		summary(s.took(entries, began, tempted)), summary(s.took(entries, tempted, over)))
	if got := s.restarts("steady"); got != 0 {
		t.Errorf("steady was started %d times again", got)
	}
	s.awaitRunning(bad...)
	s.awaitDelivered()
	s.wantHoldings(before, "crashes")
	s.stop()
}
