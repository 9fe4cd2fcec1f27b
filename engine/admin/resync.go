package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
)

// Resync has a rule see all objects of its source as Synced now, and returns how many it selects.
// That is a round, as those of resync and schedule are. Changes come in between, in order. Resync
// returns when all objects are evaluated; their events may still wait. If ctx ends, the rest of the
// objects is left out.
//
// If there is no such rule, the error wraps ErrNotFound. It is an error, and nothing has happened,
// if the rule's source has not synced, or if the rule does not select Synced.
//
// If a Reload replaces the rule meanwhile, the rest of the objects is shown to the rule as it is then.
func (d *Desk) Resync(ctx context.Context, rule string) (selected int, err error) {
	w, err := d.present.Settled(ctx)
	if err != nil {
		return 0, fmt.Errorf("rule %q: %w", rule, err)
	}
	r := w.Rule(rule)
	switch {
	case r == nil:
		return 0, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	case d.phase.Ended.Load():
		return 0, fmt.Errorf("rule %q: %w", rule, ErrStopping)
	case !r.Events.Has(delta.Synced):
		return 0, fmt.Errorf("rule %q does not select synced: add synced to its events", rule)
	}
	for _, i := range r.Own.View.Informers() {
		if state, _ := i.State(); !i.HasSynced() {
			return 0, fmt.Errorf("rule %q: its source %s is %s: try again once it has synced",
				rule, r.Source.Name, state)
		}
	}
	if waits, reason := r.Reason(); waits {
		return 0, fmt.Errorf("rule %q %s: try again then", rule, reason)
	}
	of := intake.Resync{Occasion: d.nextResync(r), Number: d.clock.Now().Unix()}
	for _, in := range w.Intakes {
		if !slices.Contains(in.Rules, r) {
			continue
		}
		n, err := d.resync(ctx, in, r, of)
		if selected += n; err != nil {
			return selected, err
		}
	}
	return selected, nil
}

// nextResync returns the occasion of a resync that begins now.
func (d *Desk) nextResync(r *live.Rule) uint32 {
	defer d.begin()()
	return r.Memory.Draw(0)
}

// resync shows a rule the objects of one informer.
func (d *Desk) resync(
	ctx context.Context, in *intake.Intake, r *live.Rule, of intake.Resync,
) (selected int, err error) {
	isThere := true
	left := in.InTurns(ctx, in.Keys(), func(is *intake.Intake, _ string, o *object.Object) bool {
		n, has := is.Again(r, o, of)
		selected, isThere = selected+n, has
		return isThere && !d.phase.Ended.Load()
	})
	switch {
	case d.phase.Ended.Load():
		return selected, fmt.Errorf("rule %q: %w", r.Name, ErrStopping)
	case !isThere:
		return selected, fmt.Errorf("rule %q has changed meanwhile: %d objects are left out", r.Name, left)
	case left > 0:
		return selected, fmt.Errorf("rule %q: %d objects are left out: %w",
			r.Name, left, context.Cause(ctx))
	}
	return selected, nil
}
