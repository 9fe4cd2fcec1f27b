package cache

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds for one process, and so for the daemon's memory and time that it can cost. For one
// process, one goroutine at a time reads the cache or makes a page.
const (
	maxConnections = 16
	maxCalls       = 32       // at once, per connection
	requestWindow  = 64 << 10 // bytes of unread requests, per connection and per call
	maxHeader      = 8 << 10  // bytes of a call's metadata
	maxAnswer      = 1 << 30  // bytes of one message: nothing in a cache is larger
	maxPages       = 32       // unread pages, each up to MaxPageBytes or one larger object
	maxLong        = 4        // answers of several pages at once; each retains what it has to send
	maxSelector    = 1 << 10  // bytes of a label selector, which is evaluated for many objects

	readRate  = 2 << 20 // bytes per second read from all connections together: some 20,000 calls
	readBurst = 1 << 20
	stay      = 100 * time.Millisecond // least time in a place, so 160 connections per second
)

// Time limits. Only tests change them.
var (
	greetTimeout = 5 * time.Second  // for the HTTP/2 handshake of a new connection
	syncTimeout  = 10 * time.Second // for a source to sync
	takeTimeout  = 30 * time.Second // for the process to read earlier answers
	longTimeout  = 2 * time.Minute  // for the process to read an answer of several pages
)

// places is a semaphore: sending takes a place, receiving returns it.
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
		return status.Errorf(codes.ResourceExhausted,
			"this handler has %d %s: read or cancel them first", cap(p), what)
	}
}

func (p places) leave() { <-p }
