// This file owns when a member may lead: raft says so, and the member speaks.

package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// These are why a Term ends, beside errSilent.
var (
	errNotLeader = errors.New("raft does not let it lead any more")
	errLease     = errors.New("more than half of the replicas have not answered for too long")
	errGivenUp   = errors.New("it was ended or handed over")
	errClosed    = errors.New("the replica is closed")
)

// leadership knows whether the member leads. Any goroutine may use it.
type leadership struct {
	raft     *raft.Raft // nil before start
	calls    *calls
	lease    func() time.Time // until when the member may lead
	handOver func(context.Context) error
	closing  chan struct{} // closed by close

	mu      sync.Mutex    // guards the fields below
	leads   bool          // raft has said so
	barred  int           // how many reasons there are not to lead
	era     uint64        // counts changes of leads and barred
	changed chan struct{} // closed when one of them changes, or term does
	term    *Term         // the current one; nil if there is none
}

func newLeadership(c *calls) *leadership {
	return &leadership{calls: c, closing: make(chan struct{}), changed: make(chan struct{})}
}

// follow takes what raft says until ctx ends. Raft waits for it.
func (l *leadership) follow(ctx context.Context, says <-chan bool) {
	for {
		select {
		case leads := <-says:
			l.change(errNotLeader, func() { l.leads = leads })
		case <-ctx.Done():
			return
		}
	}
}

// change calls f, which changes a field, and ends the current term because of why.
func (l *leadership) change(why error, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.era++
	l.drop(why)
	l.wake()
}

// bar ends the term because of why, and begins none until unbar.
func (l *leadership) bar(why error) { l.change(why, func() { l.barred++ }) }

// unbar takes back one call of bar.
func (l *leadership) unbar() { l.change(errSilent, func() { l.barred-- }) }

// close is bar for good.
func (l *leadership) close() {
	l.bar(errClosed)
	close(l.closing)
}

// drop ends the current term. l.mu is held.
func (l *leadership) drop(why error) {
	if l.term != nil {
		l.term.cancel(fmt.Errorf("%w: %w", ErrDeposed, why))
		l.term = nil
	}
}

// wake wakes those that wait for a change. l.mu is held.
func (l *leadership) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// mayLead returns the era if the member may begin a term, and what is closed at the next change.
func (l *leadership) mayLead() (era uint64, ok bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.era, l.leads && l.barred == 0 && l.term == nil, l.changed
}

// begin returns a new term when the member leads and has applied everything that was committed
// before.
func (l *leadership) begin(ctx context.Context) (*Term, error) {
	for {
		era, ok, changed := l.mayLead()
		if !ok {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		number := l.raft.CurrentTerm()
		err := l.calls.inTurn(ctx, func() error { return l.raft.Barrier(0).Error() })
		if err == nil {
			if term := l.open(era, number); term != nil {
				return term, nil
			}
		}
		select { // raft may need a moment to say that it does not lead
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open makes a term unless something has changed since era. The raft term was number before a
// barrier: if it still is, this member led all the time.
func (l *leadership) open(era, number uint64) *Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	isSame := l.era == era && l.term == nil && l.raft.CurrentTerm() == number
	if !isSame || l.raft.State() != raft.Leader || !time.Now().Before(l.lease()) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	term := &Term{of: l, number: number, ctx: ctx, cancel: cancel}
	l.term = term
	l.calls.background(func() { l.guard(term) })
	return term
}

// guard ends term when its lease does.
func (l *leadership) guard(term *Term) {
	for {
		left := time.Until(l.lease())
		if left <= 0 {
			l.end(term, errLease)
			return
		}
		select {
		case <-time.After(left):
		case <-term.ctx.Done():
			return
		}
	}
}

// end ends term because of why, if it has not ended. It reports whether it has ended it.
func (l *leadership) end(term *Term, why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term != term {
		return false
	}
	l.drop(why)
	l.wake()
	return true
}
