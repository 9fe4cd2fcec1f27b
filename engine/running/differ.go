package running

import (
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
)

// ChangedHandlers adds the handlers that a plan would change to v.
func (w *Work) ChangedHandlers(p *plan.Plan, v *preview.Names) {
	for _, h := range p.Handlers {
		switch d := w.dispatcher(h.Name); {
		case d == nil:
			v.Added = append(v.Added, h.Name)
		case d.Digest != plan.DigestOf(h):
			v.Changed = append(v.Changed, h.Name)
		}
	}
	for _, d := range w.Dispatchers {
		if _, stays := p.Handler(d.Name); !stays && d.Handler != nil {
			v.Gone = append(v.Gone, d.Name)
		}
	}
}

// HasManifest reports whether the manifest of a rule at work is that of another one.
func HasManifest(r *live.Rule, is *plan.Rule) bool {
	return r.Name == is.Name && r.Digest == is.Digest && r.Handler == is.Handler
}

// Runs reports whether a running rule is what r says, and its sources are. Its handler may have
// changed.
func (w *Work) Runs(old *live.Rule, r *plan.Rule) bool {
	if !HasManifest(old, r) {
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

// AppliesLater reports whether a running rule that selects Synced becomes r by an edit that leaves
// its membership as it is. The rule then receives nothing about objects as they are: the edit
// applies to each object at its next change.
func (w *Work) AppliesLater(old *live.Rule, r *plan.Rule) bool {
	if old.EventsDigest == r.EventsDigest || r.OnlyMeasures() ||
		!r.Events.Has(delta.Synced) || r.Source.IsRule() || r.Rounds != nil ||
		old.Membership() != live.MembershipOf(r) || old.For != r.For {
		return false
	}
	for _, planned := range r.Source.Informers {
		if in := w.Intake(planned); in == nil || !slices.Contains(in.Rules, old) {
			return false
		}
	}
	return len(old.Source.Informers) == len(r.Source.Informers)
}
