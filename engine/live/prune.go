package live

import (
	"context"

	"github.com/informd/informd/engine/orphans"
	"github.com/informd/informd/engine/state"
)

// Pruning is what a rule with prune does beside its deliveries: see package orphans.
type Pruning struct {
	Rule    *orphans.Rule
	Orphans *orphans.Orphans
	Spared  *orphans.Spared // shared with the rule before
	end     func()          // ends what Start has started; nil before that
}

// Notes writes notes to a store. It implements orphans.Notes.
type Notes struct {
	Store *state.Store // nil: nothing is kept
	// IsStepped says that nobody waits until what is recorded is on disk: the state does not run.
	IsStepped bool
}

// Begin begins a cut, and end ends it. See [state.Store.Begin].
func (n Notes) Begin() (end func()) {
	if n.Store == nil {
		return func() {}
	}
	n.Store.Begin()
	return n.Store.End
}

// Pace waits while too much waits for the disk. See [state.Store.Pace].
func (n Notes) Pace() {
	if n.Store != nil {
		n.Store.Pace()
	}
}

// Await returns nil when what was recorded so far may be acted upon. After an error nothing may be.
// See [state.Store.Await].
func (n Notes) Await(ctx context.Context) error {
	if n.Store == nil || n.IsStepped {
		return nil
	}
	return n.Store.AwaitAll(ctx)
}

// Put implements orphans.Notes.
func (n Notes) Put(rule, name string, value []byte) {
	if n.Store != nil {
		n.Store.PutNote(state.Note{Rule: rule, Name: name, Value: value})
	}
}

// Delete implements orphans.Notes.
func (n Notes) Delete(rule, name string) {
	if n.Store != nil {
		n.Store.DeleteNote(rule, name)
	}
}

// Start starts what a rule with prune does beside its deliveries, unless it runs. task starts one
// goroutine. The receiver may be nil.
func (p *Pruning) Start(task func(run func(context.Context)) (end func())) {
	if p == nil || p.end != nil {
		return
	}
	look, late := task(p.Orphans.Run), task(p.Spared.Run)
	p.end = func() {
		look()
		late()
	}
}

// Stop ends what Start has started, and returns when it has ended. The receiver may be nil.
func (p *Pruning) Stop() {
	if p != nil && p.end != nil {
		p.end()
	}
}

// Spares returns Spared. The receiver may be nil: then it returns nil, which spares nothing.
func (p *Pruning) Spares() *orphans.Spared {
	if p == nil {
		return nil
	}
	return p.Spared
}

// Reason says what a rule prunes later, or leaves in place, or returns "". The receiver may be nil.
func (p *Pruning) Reason() string {
	if p == nil {
		return ""
	}
	if reason := p.Spared.Reason(); reason != "" {
		return reason
	}
	return p.Orphans.Reason()
}
