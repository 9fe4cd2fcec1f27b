// This file owns calls of raft that may take long: they run on, even if nobody waits for them.

package replica

import (
	"context"
	"errors"
	"sync"
	"time"
)

// calls are those of one member. Close waits for them before raft ends: of some calls raft loses
// sight when it ends.
type calls struct {
	turn chan struct{} // has one element while a call changes the log

	mu       sync.Mutex // guards isClosed
	isClosed bool
	group    sync.WaitGroup
}

func newCalls() *calls { return &calls{turn: make(chan struct{}, 1)} }

// background runs f in a goroutine. It returns false, and does not run f, after close.
func (c *calls) background(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return false
	}
	c.group.Go(f)
	return true
}

// wait runs f and returns its error, or ctx's cause if that ends earlier. f goes on then.
func (c *calls) wait(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	if !c.background(func() { result <- f() }) {
		return errClosed
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		select { // prefer what is known
		case err := <-result:
			return err
		default:
			return context.Cause(ctx)
		}
	}
}

// inTurn is wait for an f that changes the log: no other one begins before f has returned. So what
// a former term proposed comes before the barrier of the next.
func (c *calls) inTurn(ctx context.Context, f func() error) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		<-c.turn
		return context.Cause(ctx)
	}
	release := sync.OnceFunc(func() { <-c.turn })
	err := c.wait(ctx, func() error {
		defer release()
		return f()
	})
	if errors.Is(err, errClosed) {
		release() // f did not run
	}
	return err
}

// close refuses further calls, and waits for those that run, until patience is over. It reports
// whether all of them have returned.
func (c *calls) close(patience time.Duration) bool {
	c.mu.Lock()
	c.isClosed = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		c.group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}
