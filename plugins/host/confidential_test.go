package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// Nothing that a handler says is kept, logged or given as a reason if it may have seen a Secret:
// the last words of a panic may quote one, wherever they are written.
func TestConfidentialWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode, event, says string
		reads             bool // the cache; otherwise it sees nothing before its first event
	}{
		{"echo", "die", "no such team", false},
		{"exits", "", "oncall.conf", true},
		{"refuses", "", "token is missing", true},
		{"fails", "", "out of luck", false},
		{"garbage", "", "I am a web server", true},
		{"health-status", "", "the database is down", false},
	} {
		for _, isConfidential := range []bool{false, true} {
			t.Run(fmt.Sprint(test.mode, test.event, isConfidential), func(t *testing.T) {
				t.Parallel()
				var log recorder
				s := spec(test.mode)
				if test.reads {
					s.Read = []string{"secrets"}
				}
				h := start(t, s, host.Options{
					Logger: log.logger(), Backoff: host.Backoff{Min: time.Minute},
					Confidential: func() bool { return isConfidential },
				})
				reason := ""
				if test.event != "" {
					ready(t, h)
					_, err := h.Handle(t.Context(), pod(test.event))
					if !errors.Is(err, handler.ErrLost) {
						t.Fatalf("got %v", err)
					}
					reason = err.Error()
				}
				waitFor(t, "trouble", func() bool {
					s := h.Status()
					return s.State == host.BackingOff || s.State == host.Refused || s.Problem != ""
				})
				is := h.Status()
				status := strings.Join(append(is.LastLog, is.Reason, is.Problem, is.LastFailure.Reason, reason), "\n")
				var own, theirs string // lines of the log
				waitFor(t, "a word in the log", func() bool {
					own, theirs = "", ""
					for _, line := range log.lines() {
						if strings.Contains(line, " via=") {
							theirs += line + "\n"
						} else {
							own += line + "\n"
						}
					}
					return strings.Contains(own, "handler failed") || strings.Contains(own, "handler refused") ||
						strings.Contains(own, "reports a problem")
				})
				for where, text := range map[string]string{"the status": status, "informd's own lines": own} {
					if strings.Contains(text, test.says) == isConfidential {
						t.Errorf("confidential: %v, and %s is\n%s", isConfidential, where, text)
					}
				}
				if test.event == "die" && !isConfidential && !strings.Contains(theirs, test.says) {
					t.Errorf("its own lines are missing:\n%s", theirs)
				}
				if isConfidential && strings.Contains(theirs, test.says) {
					t.Errorf("its own lines are\n%s", theirs)
				}
			})
		}
	}
}

// A process that is to replace another one keeps as quiet.
func TestConfidentialReload(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{Confidential: func() bool { return true }})
	ready(t, h)
	for _, mode := range []string{"exits", "health-status"} {
		next := spec(mode)
		next.Read = []string{"secrets"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := h.Reload(ctx, next)
		cancel()
		if err == nil || strings.Contains(err.Error(), "oncall.conf") || strings.Contains(err.Error(), "database") {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// A process that has seen no event, and reads nothing in the cache, knows no Secret: why it does not
// start is shown.
func TestConfidentialStart(t *testing.T) {
	t.Parallel()
	for mode, says := range map[string]string{"exits": "oncall.conf", "refuses": "token is missing"} {
		err := try(t, spec(mode), host.Options{Confidential: func() bool { return true }})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
