package admin

import (
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/acting"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/running"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/engine/trail"
)

// Desk answers operators' questions about a plan at work, and does what operators ask. It is safe
// for concurrent use.
type Desk struct {
	present *running.Present
	phase   *running.Phase
	acting  *acting.Acting
	targets *targets.Table
	dead    *dispatch.LetterBox
	store   *state.Store // nil if nothing is kept
	asides  *intake.Asides
	trail   *trail.Counter
	clock   clock.PassiveClock
}

// New returns a Desk for the works that are made of p.
func New(p *running.Parts, phase *running.Phase, dead *dispatch.LetterBox) *Desk {
	return &Desk{
		present: p.Present, phase: phase, acting: p.Acting, targets: p.Targets, dead: dead,
		store: p.Store, asides: p.Intake.Asides, trail: p.Trail, clock: p.Clock,
	}
}

// rule returns the rule with that name, or nil.
func (d *Desk) rule(name string) *live.Rule { return d.present.Work().Rule(name) }

// begin begins a cut, and end ends it. See [state.Store.Begin].
func (d *Desk) begin() (end func()) { return live.Notes{Store: d.store}.Begin() }
