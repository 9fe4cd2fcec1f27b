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
	Spared  *orphans.Spared
	end     func() // ends what runs of it; nil before that
}

// Notes writes to a store that is nil if nothing is kept. It implements orphans.Notes.
type Notes struct{ Store *state.Store }

func (n Notes) Begin() (end func()) {
	if n.Store == nil {
		return func() {}
	}
	n.Store.Begin()
	return n.Store.End
}

func (n Notes) Put(rule, name string, value []byte) {
	if n.Store != nil {
		n.Store.PutNote(state.Note{Rule: rule, Name: name, Value: value})
	}
}

func (n Notes) Delete(rule, name string) {
	if n.Store != nil {
		n.Store.DeleteNote(rule, name)
	}
}

// Start starts what a rule with prune does beside its deliveries. The receiver may be nil.
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

// Stop ends what start has started. The receiver may be nil.
func (p *Pruning) Stop() {
	if p != nil && p.end != nil {
		p.end()
	}
}

// Spares returns what the rule spares; nil if it does not prune.
func (p *Pruning) Spares() *orphans.Spared {
	if p == nil {
		return nil
	}
	return p.Spared
}

// Reason says what a rule prunes later, or leaves in place, or returns "".
func (p *Pruning) Reason() string {
	if p == nil {
		return ""
	}
	if reason := p.Spared.Reason(); reason != "" {
		return reason
	}
	return p.Orphans.Reason()
}
