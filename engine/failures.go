package engine

import (
	"log/slog"
	"sync/atomic"

	"k8s.io/utils/clock"

	"github.com/informd/informd/internal/seldom"
)

// failures counts the failed evaluations of one rule or index, and logs each message at most once a
// minute. It is safe for concurrent use.
type failures struct {
	log    *slog.Logger
	clock  clock.PassiveClock
	count  atomic.Uint64
	logged seldom.Messages
}

func newFailures(log *slog.Logger, c clock.PassiveClock) *failures {
	return &failures{log: log, clock: c}
}

// add counts err, unless it is nil.
func (f *failures) add(err error) {
	if err == nil {
		return
	}
	count, message := f.count.Add(1), err.Error()
	if _, ok := f.logged.Allow(f.clock.Now(), message); ok {
		f.log.Warn("an expression failed", "error", message, "failures", count)
	}
}
