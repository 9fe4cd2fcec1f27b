package engine

import (
	"context"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
)

// Preview returns what Reload would change if it were called now. It touches nothing, and evaluates
// memberships over the caches, in turns like those of a round. If ctx ends, it returns its error.
func (e *Engine) Preview(ctx context.Context, p *plan.Plan) (preview.Changes, error) {
	now := e.work()
	v := preview.Changes{Metrics: now.metricChanges(p)}
	for _, planned := range p.Informers {
		selection := planned.Selection
		in := now.intake(planned)
		if in == nil {
			v.Begun = append(v.Begun, selection)
			continue
		}
		v.Kept = append(v.Kept, selection)
		if keepsTooLittle(in, planned) {
			v.Widened = append(v.Widened, selection)
		}
	}
	for _, in := range now.intakes {
		selection := in.Planned.Selection
		if in.Planned.Fixed == nil && !slices.Contains(v.Kept, selection) {
			v.Ended = append(v.Ended, selection)
		}
	}
	now.changedHandlers(p, &v.Handlers)
	for _, r := range p.Rules {
		old := now.became(r)
		if old != nil && now.runs(old, r) {
			continue
		}
		var was *plan.Rule
		if old != nil {
			was = old.Rule
		}
		one := preview.Rule{Name: r.Name, Change: preview.Added, Does: preview.NewDeeds(was, r)}
		if old != nil && old.Name != r.Name {
			one.Former = old.Name
		}
		switch {
		case old != nil && old.Resource() != object.ResourceName(r.Source.Resource):
			one.Change, one.Dropped = preview.Replaced, old.Undelivered()
			old = nil
		case old != nil:
			one.Change, one.Untold, one.BySource = preview.Changed, now.isUntold(old, r), says(old, r)
		}
		if err := e.count(ctx, &one, old, r); err != nil {
			return preview.Changes{}, err
		}
		v.Rules = append(v.Rules, one)
	}
	for _, old := range now.rules {
		isNamed := func(r *plan.Rule) bool { return now.became(r) == old }
		if !slices.ContainsFunc(p.Rules, isNamed) {
			v.Rules = append(v.Rules, preview.Rule{
				Name: old.Name, Change: preview.Gone, Dropped: old.Undelivered(), Leaves: old.Prune != nil,
			})
		}
	}
	return v, nil
}

// changedHandlers adds the handlers that a plan would change to v.
func (w *work) changedHandlers(p *plan.Plan, v *preview.Names) {
	for _, h := range p.Handlers {
		switch d := w.dispatcher(h.Name); {
		case d == nil:
			v.Added = append(v.Added, h.Name)
		case d.Digest != plan.DigestOf(h):
			v.Changed = append(v.Changed, h.Name)
		}
	}
	for _, d := range w.dispatchers {
		if _, stays := p.Handler(d.Name); !stays && d.Handler != nil {
			v.Gone = append(v.Gone, d.Name)
		}
	}
}

// says reports whether the manifest of a rule at work is that of is.
func says(r *live.Rule, is *plan.Rule) bool {
	return r.Name == is.Name && r.Digest == is.Digest && r.Handler == is.Handler
}

// runs reports whether a running rule is what r says, and its sources are. Its handler may have
// changed.
func (w *work) runs(old *live.Rule, r *plan.Rule) bool {
	if !says(old, r) {
		return false
	}
	for _, s := range append([]*plan.Source{r.Source}, r.LooksInto...) {
		if s.IsRule() {
			continue
		}
		if is := w.source(s.Name); is == nil || is.Digest != s.Digest {
			return false
		}
	}
	return true
}

// isUntold reports whether a running rule that selects Synced becomes r by an edit that leaves its
// membership as it is. The rule then receives nothing about objects as they are: the edit applies
// to each object at its next change.
func (w *work) isUntold(old *live.Rule, r *plan.Rule) bool {
	if old.Told == r.Told || r.OnlyMeasures() || !r.Events.Has(delta.Synced) || r.Source.IsRule() ||
		r.Rounds != nil || old.Membership() != live.MembershipOf(r) || old.For != r.For {
		return false
	}
	for _, planned := range r.Source.Informers {
		if in := w.intake(planned); in == nil || !slices.Contains(in.Rules, old) {
			return false
		}
	}
	return len(old.Source.Informers) == len(r.Source.Informers)
}

// count counts what a rule would receive. old is what runs of it, or nil.
func (e *Engine) count(
	ctx context.Context, v *preview.Rule, old *live.Rule, r *plan.Rule,
) error {
	now := e.work()
	for _, planned := range r.Source.Informers {
		in := now.intake(planned)
		if in == nil {
			v.Lists = v.Lists || planned.Fixed == nil
			continue
		}
		was := old
		if old != nil && !slices.Contains(in.Rules, old) {
			was = nil
		}
		if was != nil && was.Membership() == live.MembershipOf(r) {
			continue
		}
		if keepsTooLittle(in, planned) || !e.hasLetters() { // nobody can tell yet
			v.Lists = true
			continue
		}
		if err := countFor(ctx, in, v, was, r, e.clock.Now); err != nil {
			return err
		}
	}
	return nil
}

// countFor counts the objects of one informer.
func countFor(
	ctx context.Context, in *intake.Intake, v *preview.Rule, old *live.Rule, r *plan.Rule, now func() time.Time,
) error {
	paths := r.Paths()
	left := in.InTurns(ctx, in.Keys(), func(is *intake.Intake, _ string, o *object.Object) bool {
		if o != nil {
			j := slices.Index(is.Rules, old)
			v.Count(j >= 0 && is.IsInside(j, o), r, o.Decode(paths), now())
		}
		return true
	})
	if left > 0 {
		return context.Cause(ctx)
	}
	return nil
}
