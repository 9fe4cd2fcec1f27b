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
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/handler"
)

// Preview says what a Reload of a plan would change now.
type Preview struct {
	// Selections of informers: those that stay, those that would begin, and list, and those that
	// would end. Widened ones stay, and would list again, to keep more of their objects. Rules
	// without a source have none here.
	Kept, Begun, Ended, Widened []source.Selection
	// Rules are those that would change, in the order of the plan; gone ones last. A rule of which
	// only the handler changes is not among them.
	Rules    []RulePreview
	Handlers HandlerPreview
	Metrics  MetricChanges
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
	// BySource says that the rule's own manifest stays the same, and a source that it reads changes.
	BySource bool
	// Does has what the rule would do by itself, and does not do yet: a verb and a resource, such as
	// "deletes v1/pods".
	Does []string
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
	for _, planned := range p.Informers {
		selection := source.Selection(planned.Selection)
		in := now.intake(planned)
		if in == nil {
			v.Begun = append(v.Begun, selection)
			continue
		}
		v.Kept = append(v.Kept, selection)
		if in.keepsTooLittle(planned) {
			v.Widened = append(v.Widened, selection)
		}
	}
	for _, in := range now.intakes {
		selection := in.informer.Selection()
		if in.planned.Fixed == nil && !slices.Contains(v.Kept, selection) {
			v.Ended = append(v.Ended, selection)
		}
	}
	now.changedHandlers(p, &v.Handlers)
	for _, r := range p.Rules {
		old := now.became(r)
		if old != nil && now.runs(old, r) {
			continue
		}
		one := RulePreview{Name: r.Name, Change: RuleAdded, Does: newDeeds(old, r)}
		if old != nil && old.Name != r.Name {
			one.Former = old.Name
		}
		switch {
		case old != nil && old.resource() != object.ResourceName(r.Source.Resource):
			one.Change, one.Dropped = RuleReplaced, old.undelivered()
			old = nil
		case old != nil:
			one.Change, one.Untold, one.BySource = RuleChanged, now.isUntold(old, r), old.says(r)
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

// changedHandlers adds the handlers that a plan would change to v.
func (w *work) changedHandlers(p *plan.Plan, v *HandlerPreview) {
	for _, h := range p.Handlers {
		switch d := w.dispatcher(h.Name); {
		case d == nil:
			v.Started = append(v.Started, h.Name)
		case d.digest != plan.DigestOf(h):
			v.Restarted = append(v.Restarted, h.Name)
		}
	}
	for _, d := range w.dispatchers {
		if _, stays := p.Handler(d.name); !stays && d.handler != nil {
			v.Ended = append(v.Ended, d.name)
		}
	}
}

// says reports whether the manifest of a running rule is that of r.
func (r *runningRule) says(is *plan.Rule) bool {
	return r.Name == is.Name && r.Digest == is.Digest && r.Handler == is.Handler
}

// runs reports whether a running rule is what r says, and its sources are. Its handler may have
// changed.
func (w *work) runs(old *runningRule, r *plan.Rule) bool {
	if !old.says(r) {
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

// deeds are the words for the actions of rules, by verb.
var deeds = map[string]string{
	handler.ActionApply: "applies", handler.ActionCreate: "creates", handler.ActionPatch: "patches",
	handler.ActionDelete: "deletes", handler.ActionEvent: "writes Events about",
}

// newDeeds returns what a rule does by itself that the rule before, which may be nil, does not.
func newDeeds(old *runningRule, r *plan.Rule) (does []string) {
	of := func(r *plan.Rule) (all []string) {
		if r.Actions != nil {
			for _, kind := range r.Actions.Unserved {
				all = append(all, fmt.Sprintf("applies or creates %s of %s, a kind that the cluster does not "+
					"serve yet", kind.Kind, kind.GroupVersion()))
			}
			for _, a := range r.Actions.Each {
				resource := a.Resource
				if resource.Resource == "" { // its kind is not served
					continue
				}
				if a.Subresource != "" {
					resource.Resource += "/" + a.Subresource
				}
				all = append(all, deeds[a.Verb]+" "+object.ResourceName(resource))
			}
		}
		for _, resource := range r.Prune {
			all = append(all, "deletes "+object.ResourceName(resource)+" that it applied and no longer wants")
		}
		return all
	}
	var before []string
	if old != nil {
		before = of(old.Rule)
	}
	for _, one := range of(r) {
		if !slices.Contains(before, one) && !slices.Contains(does, one) {
			does = append(does, one)
		}
	}
	return does
}

// preview counts what a rule would be told. old is what runs of it, or nil.
func (e *Engine) preview(
	ctx context.Context, v *RulePreview, old *runningRule, r *plan.Rule,
) error {
	now := e.work()
	for _, planned := range r.Source.Informers {
		in := now.intake(planned)
		if in == nil {
			v.Lists = v.Lists || planned.Fixed == nil
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
	return "the change applies to each object when that changes next; to apply it to all now: " +
		"informd rule resync " + rule
}

// Left says in words what it means that a rule Leaves what it has applied.
const Left = "what it has applied stays: informd applied lists it, and gives it to another rule or deletes it"

// String returns the preview of a rule in words.
func (v RulePreview) String() string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(v.Out, "object falls out (deleted)", "objects fall out (deleted)")
	add(v.In, "object comes in (synced)", "objects come in (synced)")
	add(v.Pending, "object begins to wait", "objects begin to wait")
	if v.Lists {
		parts = append(parts, "all objects that its source lists come in (synced)")
	}
	add(v.Dropped, "delivery that waits is dropped", "deliveries that wait are dropped")
	text := map[RuleChange]string{
		RuleAdded: "is new", RuleChanged: "changes", RuleGone: "is gone",
		RuleReplaced: "is about another resource, so it begins anew",
	}[v.Change]
	switch {
	case v.BySource:
		text = "changes with a source that it reads"
	case v.Former != "" && len(parts) == 0 && len(v.Does) == 0:
		text = "keeps what it had"
	}
	if len(v.Does) > 0 {
		parts = append(parts, "it "+strings.Join(v.Does, ", "))
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
	return text + ": " + strings.Join(parts, "; ")
}
