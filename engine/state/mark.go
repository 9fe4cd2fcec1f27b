// Marks and signals, with which goroutines wait for each other.

package state

import (
	"context"
	"sync"
	"sync/atomic"
)

// mark is how far something has come, as the number of a cut. Goroutines can wait for it.
type mark struct {
	reached atomic.Uint64

	mu   sync.Mutex
	more chan struct{} // closed when reached grows; nil if nobody waits
}

func (m *mark) has(cut uint64) bool { return m.reached.Load() >= cut }

// reach moves the mark. One goroutine at a time calls it, with growing numbers.
func (m *mark) reach(cut uint64) {
	m.reached.Store(cut)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.more != nil {
		close(m.more)
		m.more = nil
	}
}

// grows returns a channel that is closed when the mark next moves.
func (m *mark) grows() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.more == nil {
		m.more = make(chan struct{})
	}
	return m.more
}

// await waits until the mark has reached a cut, and returns nil, or until ctx ends. ask, called
// before each wait, asks for the mark to move.
func (m *mark) await(ctx context.Context, cut uint64, ask func()) error {
	for {
		more := m.grows()
		if m.has(cut) {
			return nil
		}
		ask()
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// signal is a request that one goroutine waits for. Any number of requests count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default: // a request is pending
	}
}
