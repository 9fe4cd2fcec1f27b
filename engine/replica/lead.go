// This file owns how a member begins to lead, and how it stops.

package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Lead waits until this member leads, and returns the term then. All entries that were committed
// before have been applied here. If a term is under way, Lead waits for the next one. It returns an
// error if ctx ends, after Close, or if the member cannot go on.
func (m *Member) Lead(ctx context.Context) (*Term, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer m.whenOver(cancel)()
	return m.lead.begin(ctx)
}

// whenOver calls cancel when the member cannot go on or is closed. The caller calls stop.
func (m *Member) whenOver(cancel context.CancelCauseFunc) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-m.fate.done:
			cancel(m.fate.err)
		case <-m.lead.closing:
			cancel(errClosed)
		case <-stopped:
		}
	}()
	return func() { close(stopped) }
}

// HandOver ends the current term and makes another member lead: one that is able to, if there is
// any, and of those the one with the most entries. It returns nil once another leads. It returns an error if this member does not lead, if no other one
// can, or if ctx ends; it may lead on then, in another term.
func (m *Member) HandOver(ctx context.Context) error {
	if m.raft.State() != raft.Leader {
		return errors.New("this replica cannot hand over: it does not lead")
	}
	m.lead.bar(errGivenUp) // another may lead before raft says here that it does
	defer m.lead.unbar()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer m.whenOver(cancel)()
	reports, _ := m.others.askAll(ctx)
	to := m.successor(reports)
	if to == nil {
		return errors.New("no other replica can lead: each is away, has no vote or is in trouble")
	}
	err := m.calls.inTurn(ctx, func() error {
		id, name := raft.ServerID(to.ID), raft.ServerAddress(to.Name)
		return m.raft.LeadershipTransferToServer(id, name).Error()
	})
	if err != nil {
		return fmt.Errorf("%s did not take over: %w", to.Name, err)
	}
	for {
		switch _, id := m.raft.LeaderWithID(); string(id) {
		case "":
		case m.self.id:
			return fmt.Errorf("%s did not take over: the replicas have chosen this one again", to.Name)
		default:
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("no other replica leads yet: %w", context.Cause(ctx))
		}
	}
}

// successor returns the voter with the most entries, or nil. One that is able to work comes first.
func (m *Member) successor(reports map[string]*report) *server {
	var best *server
	for _, s := range m.servers() {
		r := reports[s.Name]
		if s.ID == m.self.id || !s.Votes || r == nil || r.ID != s.ID || r.Trouble != "" {
			continue
		}
		if best == nil || r.isBetter(reports[best.Name]) {
			best = &s
		}
	}
	return best
}

// isBetter reports whether the member of r should rather lead than another one.
func (r *report) isBetter(other *report) bool {
	if isAble := r.Unable == ""; isAble != (other.Unable == "") {
		return isAble
	}
	return r.Last > other.Last
}

// endLimit bounds how long End tries to make another member lead.
const endLimit = 5 * time.Second

// End ends the term. If this member still leads, it makes another one lead, if one can: who has
// stopped working should not keep the others from it. If none can, this member leads on, and Lead
// returns another term.
func (t *Term) End() {
	if !t.of.end(t, errGivenUp) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	_ = t.of.handOver(ctx)
}
