package acting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/plugins/handler"
)

// errOwned is wrapped by the error of an action on a target that another source object has.
var errOwned = fmt.Errorf("it has another owner: %w", action.ErrNotOurs)

// theirs is an errOwned, or an action.ErrNotOurs, in words of its own.
type theirs struct {
	text string
	is   error
}

func (t *theirs) Error() string { return t.text }
func (t *theirs) Unwrap() error { return t.is }

// guard tells a source object's targets from those of others.
type guard struct {
	options *Options
	rule    *live.Rule
	by      action.By
	asker   targets.Asker
	exists  func(context.Context, schema.GroupVersionResource, delta.Key) (bool, error)
	stop    func() bool // reports that another rule may have the name now
}

// named returns the names of a source object and of its rule.
func (g *guard) named(a targets.Asker) (source, rule string) {
	r := g.rule
	if a.Rule != g.rule.ID {
		r = g.options.ByID(a.Rule)
	}
	if r == nil {
		return a.Key.String(), a.Rule
	}
	return object.ResourceName(r.Source.Resource) + " " + a.Key.String(), r.Name
}

// isOwnedBy returns the error of an action on a target that another source object has. It does not
// name the action.
func (g *guard) isOwnedBy(owner targets.Asker) error {
	source, rule := g.named(owner)
	text := fmt.Sprintf("rule %s applies it for %s, which asked for it first: "+
		"choose another name; when that one goes, this one gets it", rule, source)
	return handler.Reject(&theirs{text, errOwned})
}

// maxBehind is how many attempts at an event may find its target owned by another source object that
// does not have it yet. They take four minutes. The next one is refused: if the owner's other actions
// fail for good, it never gets to the target.
const maxBehind = 8

// isBehind returns the error of an action on a target that another claim has, and when to look again:
// the zero time if the error is final. Until the other one has the target in the cluster, the object's
// marks may show that it is this one's, or somebody else's. attempt is that of the event.
func (g *guard) isBehind(
	o one, owner targets.Claim, attempt int,
) (again time.Time, err error) {
	isForeign := owner.Cause == targets.CauseForeign
	next := g.options.Clock.Now().Add(time.Second << min(max(attempt, 1)-1, maxBehind))
	err = g.isOwnedBy(owner.Asker)
	switch {
	case isForeign && owner.State == targets.Refused:
		err = handler.Reject(action.ErrNotOurs)
	case owner.State == targets.Asked && attempt <= maxBehind:
		again = next
	case isForeign && owner.State == targets.Waits:
		if again = next; owner.Due.After(next) {
			again = owner.Due
		}
	}
	if !again.IsZero() {
		source, rule := g.named(owner.Asker)
		err = &theirs{fmt.Sprintf("rule %s asked for it first, for %s, and does not have it yet: "+
			"informd looks again", rule, source), action.ErrNotOurs}
	}
	return again, fmt.Errorf("%s: %w", o.name(), err)
}

// dropped decides about an object that is to be deleted: it is left alone unless the rule has
// applied it for this source object.
func (g *guard) dropped(claim targets.Claim) action.Judge {
	isItself := claim.Target.Key == g.asker.Key &&
		claim.Target.Resource.GroupResource() == g.rule.Source.Resource.GroupResource()
	return func(_ context.Context, there action.There) (former string, err error) {
		labels, _ := there.Marks()
		isOurs := there.IsAppliedBy(g.by.Rule, g.by.Former) &&
			labels[prepare.SourceLabel] == g.rule.Preparer.Mark(g.asker.Key)
		if !isOurs && claim.Former != (targets.Asker{}) {
			label := there.Label(prepare.RuleLabel)
			isOurs = there.IsAppliedBy(label) && g.isOfFormer(label, claim.Former, there)
		}
		if !isOurs || isItself || there.IsBeingDeleted() {
			return "", action.ErrLeave
		}
		return "", nil
	}
}

// isOfFormer reports whether the rule of a name, which has applied a target, is this one or that of
// the source object that has had it. A rule that is gone may have had another name than its ID: then
// it is enough that nobody else has the name, and that the target is marked for that source object.
func (g *guard) isOfFormer(name string, former targets.Asker, there action.There) bool {
	if name == g.by.Rule || name == g.by.Former || slices.Contains(g.namesOf(former.Rule), name) {
		return true
	}
	_, annotations := there.Marks()
	return g.options.ByID(former.Rule) == nil && g.options.Rule(name) == nil &&
		strings.HasSuffix(annotations[prepare.SourceAnnotation], " "+former.Key.String())
}

// namesOf returns the names of a rule with an ID.
func (g *guard) namesOf(id string) []string {
	if r := g.options.ByID(id); r != nil {
		return []string{r.Name, r.Former}
	}
	return []string{id} // it is gone
}

// applied decides about an object that is to be applied. The table knows the owner of a target
// unless the state was lost. Then the object's marks say who it is.
func (g *guard) applied(o one, claim targets.Claim) action.Judge {
	decide := func(ctx context.Context, there action.There) (former string, err error) {
		label := there.Label(prepare.RuleLabel)
		isOurs := there.IsAppliedBy(g.by.Rule, g.by.Former)
		isOwn := label == g.by.Rule || label == g.by.Former
		if !isOwn && there.IsAppliedBy(label) {
			former = label
		}
		isHeir := claim.Former != (targets.Asker{}) &&
			(former == "" && isOurs || former != "" && g.isOfFormer(former, claim.Former, there))
		switch {
		case isHeir:
			if former == "" { // the run before may have ended before these fields went
				former = g.formerOf(claim.Former.Rule, there)
			}
			return former, nil
		case former != "":
			return former, g.marked(ctx, o, g.options.Rule(label), there)
		case !isOurs:
			return "", handler.Reject(action.ErrNotOurs)
		case isOwn:
			return "", g.marked(ctx, o, g.rule, there)
		}
		return "", nil
	}
	return func(ctx context.Context, there action.There) (former string, err error) {
		if former, err = decide(ctx, there); err == nil && there.IsBeingDeleted() {
			err = errDeleting
		}
		return former, err
	}
}

// errDeleting is the error of an action on a target that will be gone with whatever is applied now.
var errDeleting = errors.New("it is being deleted: informd applies it again once it is gone")

// formerOf returns the name under which another rule, which has had a target, still has fields of it, or
// "".
func (g *guard) formerOf(id string, there action.There) string {
	for _, name := range g.namesOf(id) {
		if name != g.by.Rule && name != g.by.Former && there.IsAppliedBy(name) {
			return name
		}
	}
	return ""
}

// marked decides about a target that is marked as that of a rule, which may be nil: that one's source
// object may still ask for it.
func (g *guard) marked(ctx context.Context, o one, rule *live.Rule, there action.There) error {
	labels, annotations := there.Marks()
	isOther := rule == nil || rule.ID != g.rule.ID
	if isOther && (rule == nil || !rule.Owns()) {
		return handler.Reject(action.ErrNotOurs)
	}
	of, isKnown := rule.Preparer.SourceOf(labels, annotations)
	switch {
	case !isKnown && isOther:
		return handler.Reject(action.ErrNotOurs)
	case !isKnown, !isOther && of == g.asker.Key:
		return nil
	}
	view, resource := rule.OwnSource.View, rule.Source.Resource
	if is, ok := view.Get(of.Namespace, of.Name); ok &&
		rule.Preparer.Selects(is, g.options.Clock.Now()) {
		return g.cede(o, rule, of)
	}
	exists, err := g.exists(ctx, resource, of)
	switch {
	case err != nil && !action.IsForbidden(err):
		return err
	case err == nil && !exists && view.HasSynced():
		return nil
	case err == nil && !exists:
		return errors.New("informd does not know yet what the source has, and tries again")
	}
	text := fmt.Sprintf("it was applied for %s %s, which the rule %s does not select: another "+
		"informd may have a rule of that name; informd goes ahead once that object, or what was "+
		"applied for it, is gone", object.ResourceName(resource), of, rule.Name)
	return &theirs{text, action.ErrNotOurs}
}

// cede notes that another source object owns a target, and returns the error that says so.
func (g *guard) cede(o one, rule *live.Rule, of delta.Key) error {
	other := targets.Asker{Rule: rule.ID, Key: of}
	hasRoom := false
	end := g.options.State.Begin()
	isOver := g.stop() || g.rule.Memory.Ended() || rule.Memory.Ended()
	if !isOver {
		hasRoom = g.options.Targets.Put(other, o.target, true)
		g.options.Inherit([]targets.Claim{{Asker: other}}) // it may have been refused meanwhile
	}
	end()
	switch {
	case isOver:
		return action.ErrStopped
	case !hasRoom:
		return fmt.Errorf("informd notes the owners of %d targets, and has no room for another one",
			targets.MaxClaims)
	}
	return g.isOwnedBy(other)
}
