package engine

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	logInterval   = time.Minute
	maxRemembered = 64 // messages per rule or index; past it all others share one place
)

// failures counts what could not be evaluated for one rule or index, and logs each message at most once a minute. It is
// safe for concurrent use.
type failures struct {
	log   *slog.Logger
	count atomic.Uint64

	mu     sync.Mutex
	logged map[string]time.Time
}

func newFailures(log *slog.Logger) *failures {
	return &failures{log: log, logged: make(map[string]time.Time)}
}

// add counts err, if it is one.
func (f *failures) add(err error) {
	if err == nil {
		return
	}
	f.count.Add(1)
	message, now := err.Error(), time.Now()
	f.mu.Lock()
	place := message
	if _, known := f.logged[place]; !known && len(f.logged) >= maxRemembered {
		place = ""
	}
	last, known := f.logged[place]
	due := !known || now.Sub(last) >= logInterval
	if due {
		f.logged[place] = now
	}
	f.mu.Unlock()
	if due {
		f.log.Warn("an expression failed", "error", message, "failures", f.count.Load())
	}
}
