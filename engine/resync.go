package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
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
func (e *Engine) Resync(ctx context.Context, rule string) (selected int, err error) {
	w, err := e.settled(ctx)
	if err != nil {
		return 0, fmt.Errorf("rule %q: %w", rule, err)
	}
	r := w.rule(rule)
	switch {
	case r == nil:
		return 0, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	case e.ended.Load():
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
	of := round{e.nextResync(r), e.clock.Now().Unix()}
	for _, in := range w.intakes {
		if !slices.Contains(in.rules, r) {
			continue
		}
		n, err := e.resync(ctx, in, r, of)
		if selected += n; err != nil {
			return selected, err
		}
	}
	return selected, nil
}

// nextResync returns the occasion of a resync that begins now.
func (e *Engine) nextResync(r *live.Rule) uint32 {
	defer e.begin()()
	return r.Memory.Draw(0)
}

// resync shows a rule the objects of one informer, in turns that keep changes of the informer waiting
// no longer than those of a round do.
func (e *Engine) resync(
	ctx context.Context, in *intake, r *live.Rule, of round,
) (selected int, err error) {
	var keys []string
	in.informer.Visit(func(known iter.Seq[*object.Object]) {
		for o := range known {
			keys = append(keys, o.Key())
		}
	})
	if e.stepping != nil {
		slices.Sort(keys)
	}
	for len(keys) > 0 {
		began, isThere := time.Now(), false
		in.informer.Look(func(get func(string) *object.Object) {
			in = in.latest()
			rule := slices.IndexFunc(in.rules, func(is *live.Rule) bool { return is.Memory == r.Memory })
			if isThere = rule >= 0 && !in.isDropped; !isThere {
				return
			}
			for len(keys) > 0 && (e.stepping != nil || time.Since(began) < timing.Turn) {
				o := get(keys[0])
				keys = keys[1:]
				if o != nil {
					selected += in.again(rule, o, of)
				}
			}
		})
		switch {
		case e.ended.Load():
			return selected, fmt.Errorf("rule %q: %w", r.Name, ErrStopping)
		case !isThere:
			return selected, fmt.Errorf("rule %q has changed meanwhile: "+
				"%d objects are left out", r.Name, len(keys))
		}
		if len(keys) > 0 && !rested(ctx, timing.Lull*time.Since(began)) {
			return selected, fmt.Errorf("rule %q: %d objects are left out: %w",
				r.Name, len(keys), context.Cause(ctx))
		}
	}
	return selected, nil
}

// round is what the events of a resync have in common. No other events of the rule have its occasion.
type round struct {
	occasion uint32
	number   int64 // Unix time in seconds
}

// settled returns the plan at work while no Reload is being carried out.
func (e *Engine) settled(ctx context.Context) (*work, error) {
	for {
		w := e.work()
		if e.coming.Load() == nil {
			return w, nil
		}
		if !rested(ctx, time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// rested waits for d, and reports whether ctx has not ended meanwhile.
func rested(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// again shows a rule an object that it follows, and returns how often the rule selects it.
func (in *intake) again(rule int, o *object.Object, of round) (selected int) {
	in.tell(o, func(s evaluate.Step, c *evaluate.Change) {
		s.Delta.Occasion, s.Delta.Round = of.occasion, of.number
		in.evaluator.Again(rule, s, c)
		selected = len(c.Matches)
	})
	return selected
}
