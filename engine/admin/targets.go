package admin

import (
	"cmp"
	"fmt"
	"iter"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/running"
	"github.com/informd/informd/engine/targets"
)

// Targets returns the targets of a rule's own actions, or those of all rules if its name is empty:
// in order of the rules, of their source objects, and as those ask for them. If there is no such
// rule, the error wraps ErrNotFound. It is an error if Run has not read the saved ones yet.
//
// The sequence needs little memory, however many targets there are. It leaves out those that go
// meanwhile.
func (d *Desk) Targets(rule string) (iter.Seq[explain.Target], error) {
	w := d.present.Work()
	switch {
	case rule != "" && w.Rule(rule) == nil:
		return nil, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	case !d.phase.Loaded.Load():
		return nil, errNotRestored
	}
	return func(yield func(explain.Target) bool) {
		for _, r := range w.Rules {
			if r.Actions == nil || rule != "" && r.Name != rule {
				continue
			}
			for c := range d.targets.Sorted(r.ID) {
				if !yield(shown{d, w, r, true}.one(&c)) {
					return
				}
			}
		}
	}, nil
}

// maxTargets is how many targets of one object Explain returns.
const maxTargets = 1000

// someTargets is how many targets a line about a rule, or about one event, names.
const someTargets = 3

// shown shows the targets of a rule as operators see them.
type shown struct {
	*Desk
	work  *running.Work
	rule  *live.Rule
	hides bool // reasons that may quote a Secret
}

// whole returns what has come of all targets of the rule. It returns nil for a rule without actions.
func (s shown) whole() *explain.Targets {
	if s.rule.Actions == nil {
		return nil
	}
	if !s.phase.Loaded.Load() { // the rule's id is Run's alone until then
		return s.summary(targets.Summary{})
	}
	return s.summary(s.targets.Summarize(s.rule.ID, someTargets))
}

// of returns what has come of the targets of one source object, and at most most of them. It returns
// nil if there are none.
func (s shown) of(key delta.Key, most int) *explain.Targets {
	found := s.targets.SummarizeOf(targets.Asker{Rule: s.rule.ID, Key: key}, most)
	if found.All() == 0 {
		return nil
	}
	return s.summary(found)
}

func (s shown) summary(of targets.Summary) *explain.Targets {
	all := &explain.Targets{Owned: of.Owned, States: make(map[string]int)}
	for _, state := range targets.States() {
		all.States[state.String()] = of.States[state]
	}
	for i := range of.First {
		all.First = append(all.First, s.one(&of.First[i]))
	}
	return all
}

// one returns a claim as operators see it.
func (s shown) one(c *targets.Claim) explain.Target {
	t := explain.Target{
		Rule: s.rule.Name, Resource: object.ResourceName(c.Target.Resource),
		Part: c.Target.Subresource, Namespace: c.Target.Key.Namespace, Name: c.Target.Key.Name,
		For: c.Asker.Key.String(), State: c.State.String(),
		Trouble: explain.Trouble{
			Failures: c.Failures, Cause: c.Cause, Reason: s.reason(c), Next: c.Due,
		},
	}
	switch owner, ok := s.owner(c); {
	case ok && owner.Rule != s.rule.ID:
		t.Owner = &explain.Owner{Rule: owner.Rule, Object: owner.Key.String()}
		if r := s.work.ByID(owner.Rule); r != nil {
			t.Owner.Rule = r.Name
		}
	case ok:
		t.Owner = &explain.Owner{Rule: s.rule.Name, Object: owner.Key.String()}
	}
	return t
}

// owner returns who has the target of a claim that counts for ownership. ok is false if nobody does.
func (s shown) owner(c *targets.Claim) (owner targets.Asker, ok bool) {
	if c.State != targets.Behind {
		return c.Asker, c.Owns
	}
	first, ok := s.targets.Owner(c.Target)
	return first.Asker, ok
}

// causes has words for the causes of failures whose reasons are not kept, or not shown.
var causes = map[action.Why]string{
	action.CausePermission:  "informd may not do it",
	action.CauseCredentials: "the API server refuses informd's credentials",
	action.CauseQuota:       "a quota of the namespace is full",
	action.CauseWebhook:     "a webhook of the cluster refuses it",
	action.CauseWebhookDown: "a webhook of the cluster cannot be called",
	action.CausePolicy:      "a policy of the cluster refuses it",
	action.CauseTerminating: "its namespace is being deleted",
	action.CauseNamespace:   "its namespace does not exist",
	action.CauseImmutable:   "a field of it is immutable",
	action.CauseInvalid:     "the API server finds it invalid",
	action.CauseForeign:     "the object is somebody else's",
	action.CauseNotServed:   "the cluster does not serve the resource",
	action.CauseUnreachable: "the API server cannot be reached",
	action.CauseBusy:        "the API server has too much to do",
}

// reason returns why the last attempt at a target failed, or "".
func (s shown) reason(c *targets.Claim) string {
	if c.Failures == 0 && c.Cause == "" {
		return ""
	}
	text, quotes := s.acting.Why(c.Asker, c.Target)
	if quotes && s.hides && s.rule.Preparer.IsConfidential() {
		text = ""
	}
	return cmp.Or(text, c.Reason, causes[action.Why(c.Cause)], "the reason is not kept")
}
