package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/integration/harness"
)

// Status shows an operator why a handler does not work: it crashes, with its last words and the
// time of the next start; it hangs; or it refuses its config. informd delivers what waits for it
// when it is well again.
func TestFailingHandlers(t *testing.T) {
	t.Parallel()
	bad := []string{"exits", "freezes"}
	s := harness.SetStage(t, harness.Victims(bad...)+
		harness.Handler("refuses", "builtin: exec, config: {command: [/no/such/command]}")+harness.Rule("refuses", "source: widgets, handler: refuses"))
	s.AwaitRunning("exits", "freezes", "steady")
	if h := s.AwaitState("refuses", "refused"); !strings.Contains(h.Reason, "/no/such/command") {
		t.Errorf("refuses: %+v", h)
	}
	s.Poll("all else to be delivered", func() bool { return s.Waiting("exits")+s.Waiting("freezes")+s.Waiting("steady") == 0 })

	s.Tempt(true)
	s.Play(100)
	h := s.AwaitState("exits", "backing off")
	// The handler backs off as soon as it has failed. What comes of that is known later.
	s.Poll("the time of the next start", func() bool { h = s.StatusOf("exits"); return h.State == "backing off" && !h.Next.IsZero() })
	if !strings.Contains(h.Reason, "status 3") || !slices.ContainsFunc(h.LastLog, func(line string) bool { return strings.Contains(line, "these are my last words") }) || h.Failures == 0 {
		t.Errorf("exits: %+v", h)
	}
	if until := time.Until(h.Next); until > 40*time.Second {
		t.Errorf("exits: next start in %v: %+v", until, h)
	}
	var table string
	s.Poll("informd status to show both", func() bool { // between two starts, exits backs off again
		_, table, _ = harness.Informd(t, "status", "--state-dir", s.State)
		return strings.Contains(table, "backing off") && strings.Contains(table, "refused")
	})
	frozen := s.AwaitState("freezes", "wedged").PID
	if frozen == 0 {
		t.Error("a wedged handler has no process")
	}
	s.Poll("another process in its place", func() bool {
		now := s.Playing("victim", "freezes")
		return len(now) == 1 && now[0] != frozen && syscall.Kill(frozen, 0) != nil
	})

	s.Tempt(false)
	s.Rest()
	for _, handler := range bad {
		s.AwaitState(handler, "running")
		s.Poll("what waited for "+handler, func() bool { return s.Waiting(handler) == 0 })
	}
	s.WantSteady()
	t.Logf("\n%s", table)
	s.Stop()
}
