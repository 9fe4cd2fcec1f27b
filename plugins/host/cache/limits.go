package cache

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What one process may have, and the daemon's memory and time that it may cost at most. A reading, and the making of a page, is
// the work of one goroutine per process at a time.
const (
	maxConnections = 16
	maxCalls       = 32       // at once, per connection
	requestWindow  = 64 << 10 // bytes of requests on their way, per connection and per call
	maxHeader      = 8 << 10  // bytes of a call's metadata
	maxAnswer      = 1 << 30  // bytes of one message: nothing in a cache is larger
	maxPages       = 32       // made, and not taken by the process yet; of at most handlerpb.MaxPageBytes, or one larger object
	maxLong        = 4        // answers of several pages at a time: each holds on to all objects that it has still to tell
	maxSelector    = 1 << 10  // bytes of a label selector: it is tried on many objects

	readRate  = 2 << 20 // bytes a second that are read from all connections together: some 20,000 calls
	readBurst = 1 << 20
	stay      = 100 * time.Millisecond // a connection keeps its place this long at least: 160 a second

)

// Times; they are changed by tests only.
var (
	greetTimeout = 5 * time.Second  // for a new connection's first words
	syncTimeout  = 10 * time.Second // that a source which has not synced is waited for
	takeTimeout  = 30 * time.Second // that a call waits until earlier answers are taken
	longTimeout  = 2 * time.Minute  // to take an answer of several pages
)

// places are so many of something. One is taken by sending, and given back by receiving.
type places chan struct{}

// enter takes a place. The error is a gRPC status.
func (p places) enter(ctx context.Context, limit time.Duration, what string) error {
	select {
	case p <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-timer.C:
		return status.Errorf(codes.ResourceExhausted, "this handler has %d %s: it has to take, or to cancel, what it asked for", cap(p), what)
	}
}

func (p places) leave() { <-p }

// pace is how fast something may be read.
type pace struct {
	mu   sync.Mutex
	next time.Time // when all that was read so far is paid for
}

// pay tells how long to wait after n bytes.
func (p *pace) pay(n int, now time.Time) time.Duration {
	const burst = readBurst * time.Second / readRate
	p.mu.Lock()
	defer p.mu.Unlock()
	if earliest := now.Add(-burst); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(time.Duration(n) * time.Second / readRate)
	return p.next.Sub(now)
}
