// This file owns a term: what a leader does.

package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrDeposed is why a Term's calls fail after it has ended.
var ErrDeposed = errors.New("this replica does not lead any more")

// Term is the time in which a member leads.
type Term struct {
	of     *leadership
	number uint64
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Number returns raft's number of the term. It grows from leader to leader. A member that leads on
// after a term has ended begins another one with the same number.
func (t *Term) Number() uint64 { return t.number }

// Context returns a context that ends with the term. Its cause wraps ErrDeposed.
func (t *Term) Context() context.Context { return t.ctx }

// Propose appends entry to the log. It returns nil when the entry is committed and applied here. It
// waits as long as the term lasts, for its turn, too. It keeps nothing of entry.
//
// An error wraps ErrDeposed, unless the entry is too large. The term has ended then. The entry may
// be committed nevertheless, or become so, but only before all entries of the next term.
func (t *Term) Propose(entry []byte) error {
	if len(entry) > MaxEntry {
		return fmt.Errorf("an entry of %d bytes is larger than the %d that replicas exchange",
			len(entry), MaxEntry)
	}
	entry = slices.Clone(entry) // raft keeps it
	err := t.of.calls.inTurn(t.ctx, func() error {
		future := t.of.raft.Apply(entry, 0)
		if err := future.Error(); err != nil {
			return err
		}
		err, _ := future.Response().(error)
		return err
	})
	return t.ended(err)
}

// Verify returns nil if this member led at some time after the call began, because more than half
// of the members have said so. An error wraps ErrDeposed, or it is ctx's.
func (t *Term) Verify(ctx context.Context) error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	err := t.of.calls.wait(both, func() error { return t.of.raft.VerifyLeader().Error() })
	if err == nil && t.of.raft.CurrentTerm() != t.number {
		err = errNotLeader
	}
	if ctx.Err() != nil && t.ctx.Err() == nil && err != nil {
		return err
	}
	return t.ended(err)
}

// ended ends the term if err is not nil, and returns an error that wraps ErrDeposed then.
func (t *Term) ended(err error) error {
	if err != nil && !errors.Is(err, ErrDeposed) {
		err = fmt.Errorf("%w: %w", ErrDeposed, err)
	}
	if err != nil {
		t.of.end(t, err)
		return err
	}
	return nil
}
