package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// HandlerStatus is the part of `informd status -o json` about a handler that these tests read.
type HandlerStatus struct {
	Name, State, Reason, Program, Confined string
	Restarts, Failures, PID                int
	Next                                   time.Time
	LastLog                                []string
}

// StatusOf asks the daemon for a handler's status.
func (s *Stage) StatusOf(handler string) HandlerStatus {
	s.T.Helper()
	code, stdout, stderr := RunCommand(s.T, Binary,
		"status", "-o", "json", "--state-dir", s.State)
	if code != 0 {
		s.T.Fatalf("informd status: exit code %d\n%s", code, stderr)
	}
	var status struct{ Handlers []HandlerStatus }
	if err := json.Unmarshal([]byte(stdout), &status); err != nil {
		s.T.Fatalf("%v\n%s", err, stdout)
	}
	i := slices.IndexFunc(status.Handlers, func(h HandlerStatus) bool { return h.Name == handler })
	if i < 0 {
		s.T.Fatalf("no handler %s in informd status\n%s", handler, stdout)
	}
	return status.Handlers[i]
}

// AwaitState waits until `informd status` and the metric both have a handler in a state.
func (s *Stage) AwaitState(handler, state string) (h HandlerStatus) {
	s.T.Helper()
	s.Poll(handler+" to be "+state, func() bool {
		if s.Metric(stateSeries(handler, state)) != "1" {
			return false
		}
		h = s.StatusOf(handler)
		return h.State == state
	})
	return h
}

func stateSeries(handler, state string) string {
	return fmt.Sprintf("informd_handler_state{handler=%q,state=%q}", handler, state)
}
