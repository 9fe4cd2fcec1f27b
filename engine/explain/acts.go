package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/trail"
)

// OwnAction says what a change makes of one of the rule's own actions.
type OwnAction struct {
	Label    string `json:"label"` // as actions[0]
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	// IsSkipped says that it is not evaluated for deletions.
	IsSkipped bool `json:"skipped,omitempty"`
	// ForEach and If are what forEach and if gave; If is for the first element for which it was false,
	// if there is one. They are nil if the action has none, or if the values are not at hand.
	ForEach *Part `json:"forEach,omitempty"`
	If      *Part `json:"if,omitempty"`
	// Made is how many actions it makes; -1 if that is not known.
	Made int `json:"made"`

	hasForEach, hasIf bool
}

// Acts says what the rule's own actions make of a change.
type Acts struct {
	Event string `json:"event"` // the type of the change
	// IsNow says that the actions are evaluated now, with what is looked up as it is now.
	IsNow bool `json:"now,omitempty"`
	// LooksUp says that the values are those of the last event, and what is looked up is as it is now.
	LooksUp bool        `json:"lookedUpNow,omitempty"`
	Actions []OwnAction `json:"actions"`
	// Prunes says that the rule deletes what it has applied and no longer asks for.
	Prunes bool `json:"prunes,omitempty"`
	// Error says why no action can be made.
	Error string `json:"error,omitempty"`
}

// acts says what the rule's own actions made of the event of the last attempt, or would make of the
// object if it were synced now.
func (c *Case) acts(x *Explanation) {
	a := c.LastAttempt
	isGone := a != nil && a.Type == delta.Deleted
	isLast := isGone || a != nil && c.Object != nil && c.Object.ResourceVersion() == a.Version
	isRefused := x.When != nil && x.When.Part != nil && x.When.Part.isFalse()
	if c.Rule.Actions == nil || !isLast && (x.Standing != Member || isRefused) {
		return
	}
	d, now := delta.Delta{Type: delta.Synced, Object: c.Object}, c.Now
	if isLast {
		d.Type, d.Round, now = a.Type, a.Round, a.At
	}
	if isGone {
		d.Object = nil // informd keeps none
	}
	x.Acts = c.considered(d, now)
	x.Acts.IsNow = !isLast
	x.Acts.LooksUp = isLast && (c.Rule.Actions.ReadsIndex() || len(c.Rule.Actions.Lookups()) > 0)
}

// considered says what the rule's own actions make of a change. If its object is nil, or its old
// state is needed and nil, the values are not at hand.
func (c *Case) considered(d delta.Delta, now time.Time) *Acts {
	of := *c
	of.paths, of.Caches = c.Rule.Actions.Paths(), c.ActionCaches
	env := expr.Env{Event: d.Type.String(), Now: now, Cache: of.lookup(false, now)}
	if of.Object = d.Object; d.Object != nil {
		env.Object = of.tree(d.Object)
	}
	if of.Old = d.Old; d.Old != nil {
		env.Old = of.tree(d.Old)
	}
	if c.Rule.IsScheduled && d.Type == delta.Synced && d.Round > 0 {
		env.Moment = time.Unix(d.Round, 0)
	}
	acts := &Acts{Event: d.Type.String(), Prunes: c.Rule.Actions.Prune}
	isKnown := func(p *expr.Program) bool {
		return p == nil || d.Object != nil && c.Rule.Group == nil &&
			(d.Type != delta.Updated || d.Old != nil || !p.ReadsOld())
	}
	knowsAll := d.Object != nil && c.Rule.Group == nil && (d.Type != delta.Updated || d.Old != nil)
	for i := range c.Rule.Actions.Each {
		t := &c.Rule.Actions.Each[i]
		one := OwnAction{
			Label: t.Label, Verb: t.Verb, Resource: object.ResourceName(t.Resource), Made: -1,
			hasForEach: t.ForEach != nil, hasIf: t.If != nil,
		}
		switch {
		case !c.Rule.Actions.AsksFor(t, d.Type):
			one.IsSkipped, one.Made = true, 0
		case isKnown(t.ForEach) && isKnown(t.If):
			of.consider(t, env, &one)
		}
		acts.Actions = append(acts.Actions, one)
	}
	if knowsAll {
		if _, err := c.Rule.Actions.Evaluate(d, nil, of.lookup(false, now)); err != nil {
			acts.Error = err.Error()
		}
	}
	return acts
}

// consider evaluates the forEach and the if of one action.
func (c *Case) consider(t *rule.ActionTemplate, env expr.Env, one *OwnAction) {
	elements := []any{nil}
	if t.ForEach != nil {
		one.ForEach = c.trace(t.ForEach, env, c.maskedEnv(env))
		var err error
		if elements, err = t.ForEach.Elements(&env); err != nil {
			return
		}
	}
	one.Made = 0
	for _, env.Item = range elements {
		if t.If == nil {
			one.Made++
			continue
		}
		holds, err := t.If.Bool(&env)
		if one.If == nil || !holds && one.If.Error == "" && !one.If.isFalse() {
			one.If = c.traceIf(t, env)
		}
		if err != nil {
			one.Made = -1
			return
		}
		if holds {
			one.Made++
		}
	}
}

// traceIf evaluates the if of one action, for one element if it has a forEach. An element may hold a
// Secret's values, so of its values nothing is shown but the result.
func (c *Case) traceIf(t *rule.ActionTemplate, env expr.Env) *Part {
	if t.ForEach == nil || !c.hides() {
		return c.trace(t.If, env, c.maskedEnv(env))
	}
	out := c.trace(t.If, env, nil)
	result := out.Value
	out.mask(nil)
	if string(result) == "true" || string(result) == "false" {
		out.Value = result
	}
	return out
}

// Made returns how many actions are made; -1 if that is not known.
func (a *Acts) Made() (n int) {
	for i := range a.Actions {
		if a.Actions[i].Made < 0 {
			return -1
		}
		n += a.Actions[i].Made
	}
	return n
}

// maxReasons bounds the actions of which a sentence says why they make nothing.
const maxReasons = 3

// whyNone says why no action is made. be is the verb's form: is or was.
func (a *Acts) whyNone(be string) string {
	var reasons []string
	for i := range a.Actions {
		if len(reasons) == maxReasons {
			reasons = append(reasons, fmt.Sprintf("and %d more", len(a.Actions)-i))
			break
		}
		reason := a.Actions[i].whyNone(be)
		if len(a.Actions) > 1 {
			reason = a.Actions[i].Label + ": " + reason
		}
		reasons = append(reasons, reason)
	}
	return strings.Join(reasons, "; ")
}

func (o *OwnAction) whyNone(be string) string {
	isKnown := o.Made == 0 && (o.ForEach != nil || o.If != nil)
	switch {
	case o.IsSkipped:
		return o.Verb + " is not for deletions"
	case !o.hasForEach && !o.hasIf:
		return "the rule was another one then"
	case !isKnown && o.hasForEach && o.hasIf:
		return "forEach " + be + " empty, or if false for each element"
	case !o.hasIf, isKnown && o.If == nil:
		return "forEach " + be + " empty"
	case !isKnown:
		return "if " + be + " false"
	}
	why := "if " + be + " false"
	if o.ForEach != nil {
		why += " for each element"
	}
	if because := o.If.why(); because != "" {
		why += " because " + because
		if o.ForEach != nil {
			why += " for the first"
		}
	}
	return why
}

// acted says what the rule did about its last event: whether it performed actions, and if it has a
// handler, that this has acknowledged the event.
func (x *Explanation) acted(a *Happened) string {
	event, ago := "its last event ("+a.Event+")", Short(x.Time.Sub(a.Time))+" ago"
	begin := ""
	if x.Handler != ownActions {
		begin = "Its last event (" + a.Event + ") was delivered. "
		event = "it"
	}
	switch {
	case a.What == trail.Acted.String():
		return begin + "The actions for " + event + " were performed " + ago + "."
	case a.Event == delta.Deleted.String() && a.What == trail.Pruned.String():
		return begin + "For " + event + ", the rule pruned what it had applied, " + ago + "."
	}
	text := begin + "No action for " + event + ", " + ago + ": " + x.whyIdle()
	if a.What == trail.Pruned.String() {
		text += ". It pruned what it had applied"
	}
	return text + "."
}

// whyIdle says why the rule had no action to perform for its last event.
func (x *Explanation) whyIdle() string {
	if x.Acts == nil {
		return "each if was false, or its forEach empty"
	}
	as := x.Acts
	if as.IsNow || as.LooksUp || as.Made() > 0 { // the values may be others now
		unknown := Acts{}
		for _, one := range as.Actions {
			one.ForEach, one.If = nil, nil
			unknown.Actions = append(unknown.Actions, one)
		}
		as = &unknown
	}
	text := as.whyNone("was")
	if n := x.Acts.Made(); n > 0 {
		text += fmt.Sprintf(". As things are now, it would make %d %s", n, plural(n, "action"))
	}
	return text
}

// wouldAct says what the rule's own actions would do about a change that is only supposed. subject is
// who is spoken of.
func (x *Explanation) wouldAct(subject string) string {
	prunes := ""
	if x.Acts.Prunes {
		prunes = ", and prune what it has applied"
	}
	switch n := x.Acts.Made(); {
	case x.Acts.Error != "":
		return subject + " perform no action: it fails, and the event becomes a dead letter: " +
			x.Acts.Error + "."
	case n == 0 && x.Acts.Event == delta.Deleted.String() && prunes != "":
		return subject + " prune what it has applied."
	case n == 0:
		return subject + " perform no action" + prunes + ": " + x.Acts.whyNone("is") + "."
	case n > 0:
		return fmt.Sprintf("%s perform %d %s%s.", subject, n, plural(n, "action"), prunes)
	}
	return subject + " perform its actions" + prunes + "."
}
