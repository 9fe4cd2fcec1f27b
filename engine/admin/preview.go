package admin

import (
	"context"
	"slices"
	"time"

	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
	"github.com/informd/informd/engine/running"
)

// Preview returns what Reload would change if it were called now. It touches nothing, and evaluates
// memberships over the caches, in turns like those of a round. If ctx ends, it returns its error.
func (d *Desk) Preview(ctx context.Context, p *plan.Plan) (preview.Changes, error) {
	now := d.present.Work()
	v := preview.Changes{Metrics: now.MetricChanges(p)}
	for _, planned := range p.Informers {
		selection := planned.Selection
		in := now.Intake(planned)
		if in == nil {
			v.Begun = append(v.Begun, selection)
			continue
		}
		v.Kept = append(v.Kept, selection)
		if running.KeepsTooLittle(in, planned) {
			v.Widened = append(v.Widened, selection)
		}
	}
	for _, in := range now.Intakes {
		selection := in.Planned.Selection
		if in.Planned.Fixed == nil && !slices.Contains(v.Kept, selection) {
			v.Ended = append(v.Ended, selection)
		}
	}
	now.ChangedHandlers(p, &v.Handlers)
	for _, r := range p.Rules {
		old := now.Predecessor(r)
		if old != nil && now.Runs(old, r) {
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
			one.Change, one.AppliesLater = preview.Changed, now.AppliesLater(old, r)
			one.BySource = running.HasManifest(old, r)
		}
		one.Releases = was != nil && was.Owns() && !r.Owns()
		if err := d.count(ctx, &one, old, r); err != nil {
			return preview.Changes{}, err
		}
		v.Rules = append(v.Rules, one)
	}
	for _, old := range now.Rules {
		isNamed := func(r *plan.Rule) bool { return now.Predecessor(r) == old }
		if !slices.ContainsFunc(p.Rules, isNamed) {
			v.Rules = append(v.Rules, preview.Rule{
				Name: old.Name, Change: preview.Gone, Dropped: old.Undelivered(), Leaves: old.Prune != nil,
			})
		}
	}
	return v, nil
}

// count counts what a rule would receive. old is what runs of it, or nil.
func (d *Desk) count(
	ctx context.Context, v *preview.Rule, old *live.Rule, r *plan.Rule,
) error {
	now := d.present.Work()
	for _, planned := range r.Source.Informers {
		in := now.Intake(planned)
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
		if running.KeepsTooLittle(in, planned) || !d.phase.Loaded.Load() { // nobody can tell yet
			v.Lists = true
			continue
		}
		if err := countFor(ctx, in, v, was, r, d.clock.Now); err != nil {
			return err
		}
	}
	return nil
}

// countFor counts the objects of one informer.
func countFor(
	ctx context.Context, in *intake.Intake, v *preview.Rule, old *live.Rule, r *plan.Rule,
	now func() time.Time,
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
