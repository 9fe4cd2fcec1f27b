package source

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// sayer says things at most once a minute each: what goes wrong with one object goes wrong with a thousand.
type sayer struct {
	log   *slog.Logger
	clock clock.PassiveClock

	mu   sync.Mutex
	said map[string]time.Time // at most maxSaid
}

const (
	sayEvery = time.Minute
	maxSaid  = 1000 // past it, all are forgotten: some are then said twice in a minute
)

func newSayer(log *slog.Logger, clock clock.PassiveClock) *sayer {
	return &sayer{log: log, clock: clock, said: map[string]time.Time{}}
}

// warn says message about subject, which identify what is said, if it was not said in the last minute.
func (s *sayer) warn(log *slog.Logger, message, subject string, attrs ...any) {
	if s.may(message + "\x00" + subject) {
		log.Warn(message, attrs...)
	}
}

func (s *sayer) may(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if last, ok := s.said[what]; ok && now.Sub(last) < sayEvery {
		return false
	}
	if len(s.said) >= maxSaid {
		clear(s.said)
	}
	s.said[what] = now
	return true
}

// reach is about the API server as a whole: that it cannot be reached, or refuses the credentials, is told once and
// not once per informer.
type reach struct {
	*sayer

	mu   sync.Mutex
	lost bool
	told bool // that it is lost
	when time.Time
}

func (r *reach) away(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		return
	}
	r.lost, r.when = true, r.clock.Now()
	if r.told = r.may("away"); r.told {
		r.log.Warn("waiting for the API server", "reason", reason)
	}
}

func (r *reach) back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost && r.told {
		r.log.Info("the API server answers again", "after", r.clock.Since(r.when).Round(time.Millisecond))
	}
	r.lost = false
}
