package source

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/internal/seldom"
)

// sayer logs each message at most once a minute, because a fault of one object is often the fault
// of a thousand.
type sayer struct {
	log   *slog.Logger
	clock clock.PassiveClock
	said  seldom.Messages
}

// maxSaid is how many different messages a minute may log. The sayer holds back the others.
const maxSaid = 1000

func newSayer(log *slog.Logger, clock clock.PassiveClock) *sayer {
	return &sayer{log: log, clock: clock, said: seldom.Messages{Max: maxSaid}}
}

// warn logs message about subject, unless it has logged the same about it within a minute.
func (s *sayer) warn(log *slog.Logger, message, subject string, attrs ...any) {
	if s.may(message + "\x00" + subject) {
		log.Warn(message, attrs...)
	}
}

// may reports whether a message may be logged now, and counts it as logged.
func (s *sayer) may(message string) bool {
	_, ok := s.said.Allow(s.clock.Now(), message)
	return ok
}

// reach logs that the API server cannot be reached or refuses the credentials. It logs that once,
// not once per informer.
type reach struct {
	*sayer

	mu   sync.Mutex // guards the fields below; comes before the lock of seldom.Messages
	lost bool
	told bool // the loss was logged
	when time.Time
}

// away notes that the API server serves no informer, and why.
func (r *reach) away(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lost {
		r.lost, r.told, r.when = true, false, r.clock.Now()
	}
	if r.told || !r.may("away") {
		return // if it lasts, the next attempt after the minute says so
	}
	r.told = true
	r.log.Warn("waiting for the API server", "reason", reason,
		"since", r.when.Format(time.RFC3339))
}

// back notes that the API server has answered.
func (r *reach) back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost && r.told {
		r.log.Info("the API server answers again",
			"after", r.clock.Since(r.when).Round(time.Millisecond))
	}
	r.lost = false
}
