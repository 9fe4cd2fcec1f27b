package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// handlerStatus is what `informd status -o json` says of a handler, as far as these tests look.
type handlerStatus struct {
	Name, State, Reason, Program, Confined string
	Restarts, Failures                     int
	Next                                   time.Time
	LastLog                                []string
}

// statusOf asks the daemon for a handler's.
func (s *stage) statusOf(handler string) handlerStatus {
	s.t.Helper()
	code, stdout, stderr := runCommand(s.t, s.informd, "status", "-o", "json", "--state-dir", s.state)
	if code != 0 {
		s.t.Fatalf("informd status: exit code %d\n%s", code, stderr)
	}
	var status struct{ Handlers []handlerStatus }
	if err := json.Unmarshal([]byte(stdout), &status); err != nil {
		s.t.Fatalf("%v\n%s", err, stdout)
	}
	i := slices.IndexFunc(status.Handlers, func(h handlerStatus) bool { return h.Name == handler })
	if i < 0 {
		s.t.Fatalf("no handler %s in informd status\n%s", handler, stdout)
	}
	return status.Handlers[i]
}

// awaitState waits for `informd status` to have a handler in a state, and for the metric to say the same, and of no other.
func (s *stage) awaitState(handler, state string) (h handlerStatus) {
	s.t.Helper()
	s.poll(handler+" to be "+state, func() bool {
		h = s.statusOf(handler)
		return h.State == state && s.metric(stateSeries(handler, state)) == "1"
	})
	return h
}

func stateSeries(handler, state string) string {
	return fmt.Sprintf("informd_handler_state{handler=%q,state=%q}", handler, state)
}

// What an operator sees of handlers that do not work: that they crash, with their last words and the time of the next
// start; that they hang; that they refuse their config. What waits for them is delivered when they are well.
func TestHandlersInTrouble(t *testing.T) {
	bad := []string{"exits", "freezes"}
	s := setStage(t, victims(bad...)+
		toldBy("refuses", "builtin: exec, config: {command: [/no/such/command]}")+ruleFor("refuses", "source: widgets, handler: refuses"))
	s.awaitRunning("exits", "freezes", "steady")
	if h := s.awaitState("refuses", "refused"); !strings.Contains(h.Reason, "/no/such/command") {
		t.Errorf("refuses: %+v", h)
	}
	s.poll("all else to be delivered", func() bool { return s.waiting("exits")+s.waiting("freezes")+s.waiting("steady") == 0 })

	s.tempt(true)
	s.play(100)
	h := s.awaitState("exits", "backing off")
	if !strings.Contains(h.Reason, "status 3") || !slices.ContainsFunc(h.LastLog, func(line string) bool { return strings.Contains(line, "these are my last words") }) || h.Failures == 0 {
		t.Errorf("exits: %+v", h)
	}
	s.poll("the time of the next start", func() bool { h = s.statusOf("exits"); return !h.Next.IsZero() })
	if until := time.Until(h.Next); until > 40*time.Second {
		t.Errorf("exits: next start in %v: %+v", until, h)
	}
	_, table, _ := informd(t, "status", "--state-dir", s.state)
	if !strings.Contains(table, "backing off") || !strings.Contains(table, "refused") {
		t.Errorf("informd status:\n%s", table)
	}
	s.awaitState("freezes", "wedged")
	frozen := s.playing("victim", "freezes")
	s.poll("another process in its place", func() bool {
		now := s.playing("victim", "freezes")
		return len(frozen) == 1 && len(now) == 1 && now[0] != frozen[0] && syscall.Kill(frozen[0], 0) != nil
	})

	s.tempt(false)
	s.rest()
	for _, handler := range bad {
		s.awaitState(handler, "running")
		s.poll("what waited for "+handler, func() bool { return s.waiting(handler) == 0 })
	}
	s.wantSteady()
	t.Logf("\n%s", table)
	s.stop()
}
