package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// Preview says what a Reload of a plan would change now.
type Preview struct {
	// Selections of informers: those that stay, those that would begin, and list, and those that
	// would end. Widened ones stay, and would list again, to keep more of their objects.
	Kept, Begun, Ended, Widened []string
	Rules                       []RulePreview // those that would change, in the order of the plan; gone ones last
	Handlers                    HandlerPreview
	Metrics                     MetricChanges
}

// HandlerPreview names handlers that would change.
type HandlerPreview struct{ Started, Restarted, Ended []string }

// RulePreview says what a rule would be told at once, before its when and events.
type RulePreview struct {
	Name   string
	Former string // the name that it has until now; empty unless the change renames it
	Change RuleChange
	// In is how many objects come in or stay in, and are told as Synced; Out how many fall out, and
	// are told as Deleted. Pending is how many begin to wait.
	In, Out, Pending int
	// Lists says that the rule would also be told what informers list that are yet to begin, or have
	// to keep more of their objects.
	Lists bool
	// Dropped is how many deliveries that wait would be dropped.
	Dropped int
	// Untold says that the rule selects Synced, and would still be told nothing of objects as they
	// are.
	Untold bool
	// Leaves says that the rule would be gone and prunes: what it has applied stays.
	Leaves bool
}

// RuleChange is how a rule would change.
type RuleChange string

// The changes of rules. A rule about another resource than before is replaced.
const (
	RuleAdded    RuleChange = "added"
	RuleChanged  RuleChange = "changed"
	RuleReplaced RuleChange = "replaced"
	RuleGone     RuleChange = "gone"
)

// Preview returns what Reload would change if it were called now. It touches nothing, and evaluates
// memberships over the caches, in turns like those of a round. If ctx ends, it returns its error.
func (e *Engine) Preview(ctx context.Context, p *plan.Plan) (Preview, error) {
	now := e.work()
	v := Preview{Metrics: now.metricChanges(p)}
	for _, planned := range p.AllInformers() {
		in := now.intake(planned)
		if in == nil {
			v.Begun = append(v.Begun, informerID(planned))
			continue
		}
		v.Kept = append(v.Kept, in.id)
		if in.keepsTooLittle(planned) {
			v.Widened = append(v.Widened, in.id)
		}
	}
	for _, in := range now.intakes {
		if !slices.Contains(v.Kept, in.id) {
			v.Ended = append(v.Ended, in.id)
		}
	}
	changed := now.changedHandlers(p, &v.Handlers)
	for _, r := range p.Rules {
		old := now.became(r)
		if old != nil && now.runs(old, r, changed) {
			continue
		}
		one := RulePreview{Name: r.Name, Change: RuleAdded}
		if old != nil && old.Name != r.Name {
			one.Former = old.Name
		}
		switch {
		case old != nil && old.resource() != object.ResourceName(r.Source.Resource):
			one.Change, one.Dropped = RuleReplaced, old.undelivered()
			old = nil
		case old != nil:
			one.Change, one.Untold = RuleChanged, now.isUntold(old, r)
		}
		if err := e.preview(ctx, &one, old, r); err != nil {
			return Preview{}, err
		}
		v.Rules = append(v.Rules, one)
	}
	for _, old := range now.rules {
		isNamed := func(r *plan.Rule) bool { return now.became(r) == old }
		if !slices.ContainsFunc(p.Rules, isNamed) {
			v.Rules = append(v.Rules, RulePreview{
				Name: old.Name, Change: RuleGone, Dropped: old.undelivered(), Leaves: old.Prune != nil,
			})
		}
	}
	return v, nil
}

// undelivered returns how many deliveries of the rule wait, also those of groups.
func (r *runningRule) undelivered() int {
	stats := r.lane.Stats()
	gathered, _ := r.lane.Gathered()
	return stats.Waiting + stats.Away + gathered
}

// changedHandlers adds the handlers that a plan would change to v, and returns their names.
func (w *work) changedHandlers(p *plan.Plan, v *HandlerPreview) (changed []string) {
	for _, h := range p.Handlers {
		switch d := w.dispatcher(h.Name); {
		case d == nil:
			v.Started = append(v.Started, h.Name)
		case d.digest != plan.DigestOf(h):
			v.Restarted = append(v.Restarted, h.Name)
			changed = append(changed, h.Name)
		}
	}
	for _, d := range w.dispatchers {
		if _, stays := p.Handler(d.name); !stays && d.handler != nil {
			v.Ended = append(v.Ended, d.name)
		}
	}
	return changed
}

// runs reports whether a running rule is what r says, as builder.isSame does before anything is
// built.
func (w *work) runs(old *runningRule, r *plan.Rule, changed []string) bool {
	if old.Name != r.Name || old.Digest != r.Digest || old.Handler != r.Handler || slices.Contains(changed, r.Handler) {
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

// isUntold reports whether a running rule that selects Synced becomes r by another edit than one of
// its membership, so that it is told nothing of objects as they are: what its manifest says now is
// about their next changes.
func (w *work) isUntold(old *runningRule, r *plan.Rule) bool {
	if old.Told == r.Told || r.OnlyMeasures() || !r.Events.Has(delta.Synced) || r.Source.IsRule() ||
		r.Rounds != nil || old.membership() != membershipOf(r) || old.For != r.For {
		return false
	}
	for _, planned := range r.Source.Informers {
		if in := w.intake(planned); in == nil || !slices.Contains(in.rules, old) {
			return false
		}
	}
	return len(old.Source.Informers) == len(r.Source.Informers)
}

// preview counts what a rule would be told. old is what runs of it, or nil.
func (e *Engine) preview(
	ctx context.Context, v *RulePreview, old *runningRule, r *plan.Rule,
) error {
	now := e.work()
	for _, planned := range r.Source.Informers {
		in := now.intake(planned)
		if in == nil {
			v.Lists = true
			continue
		}
		was := old
		if old != nil && !slices.Contains(in.rules, old) {
			was = nil
		}
		if was != nil && was.membership() == membershipOf(r) {
			continue
		}
		if in.keepsTooLittle(planned) { // nobody can tell yet
			v.Lists = true
			continue
		}
		if err := in.preview(ctx, v, was, r); err != nil {
			return err
		}
	}
	return nil
}

// preview counts the objects of one informer.
func (in *intake) preview(
	ctx context.Context, v *RulePreview, old *runningRule, r *plan.Rule,
) error {
	var keys []string
	in.informer.Visit(func(known iter.Seq[*object.Object]) {
		for o := range known {
			keys = append(keys, o.Key())
		}
	})
	paths := r.Paths()
	for len(keys) > 0 {
		began := time.Now()
		in.informer.Look(func(get func(string) *object.Object) {
			is := in.latest()
			j := slices.Index(is.rules, old)
			for len(keys) > 0 && time.Since(began) < turn {
				o := get(keys[0])
				keys = keys[1:]
				if o == nil {
					continue
				}
				var reported evaluate.Change // its failures were reported when it was told
				before := j >= 0 && is.evaluator.IsInside(j, o, &reported)
				is.evaluator.Forget()
				v.count(before, r, o.Decode(paths), in.clock.Now())
			}
		})
		if len(keys) > 0 && !rested(ctx, lull*time.Since(began)) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// count counts an object that the rule had inside before, or not.
func (v *RulePreview) count(before bool, r *plan.Rule, tree any, now time.Time) {
	inside, mark, _ := r.Settle(tree, before, now) // an expression that fails does not match
	switch {
	case inside && !r.OnlyInRounds:
		v.In++
	case inside:
	case before:
		v.Out++
	}
	if !mark.IsZero() {
		v.Pending++
	}
}

// Untold says in words what it means that a changed rule is Untold.
func Untold(rule string) string {
	return "objects hear of it at their next change; to have the rule see all now: " +
		"informd rule resync " + rule
}

// Left says in words what it means that a rule Leaves what it has applied.
const Left = "what it has applied stays: informd applied lists it, and gives it to another rule or deletes it"

// String returns the preview of a rule in words.
func (v RulePreview) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(v.Out, "fall out (deleted)")
	add(v.In, "come in (synced)")
	add(v.Pending, "begin to wait")
	if v.Lists {
		parts = append(parts, "what its source lists comes in")
	}
	add(v.Dropped, "deliveries that wait are dropped")
	text := map[RuleChange]string{
		RuleAdded: "is new", RuleChanged: "changes", RuleGone: "is gone",
		RuleReplaced: "is about another resource, so it begins anew",
	}[v.Change]
	if v.Former != "" && len(parts) == 0 {
		text = "keeps what it had"
	}
	if v.Untold {
		parts = append(parts, Untold(v.Name))
	}
	if v.Leaves {
		parts = append(parts, Left)
	}
	if len(parts) == 0 {
		return text
	}
	return text + ": " + strings.Join(parts, ", ")
}
