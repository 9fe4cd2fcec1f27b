package explain

import (
	"errors"
	"fmt"
	"slices"
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
	// Item is the place in forEach's list, from 0 on, of the element that If is about.
	Item *int `json:"item,omitempty"`
	// LooksUp says that it depends on what it looks up, which is not known without a daemon.
	LooksUp bool `json:"lookedUp,omitempty"`
	// Made is how many actions it makes; -1 if that is not known.
	Made int `json:"made"`
	// Outcome says why what it makes was not performed, or that it failed; "" if it was performed.
	Outcome string `json:"outcome,omitempty"`

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
// object if there were an event about it now.
func (c *Case) acts(x *Explanation) {
	a := c.LastAttempt
	isGone := a != nil && a.Type == delta.Deleted
	isLast := isGone || a != nil && c.Object != nil && c.Object.ResourceVersion() == a.Version
	isRefused := x.When != nil && x.When.Part != nil && x.When.Part.isFalse()
	if c.Rule.Actions == nil || !isLast && (x.Standing != Member || isRefused) {
		return
	}
	d, now := delta.Delta{Type: c.supposed(), Object: c.Object}, c.Now
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
			c.isBlind()
			of.consider(t, env, &one)
			if one.LooksUp = c.isBlind(); one.LooksUp {
				one.Made = -1
			}
		}
		acts.Actions = append(acts.Actions, one)
	}
	if knowsAll {
		err := tried(c.Rule.Actions.Walker(d, nil, of.lookup(false, now)))
		if isBlind := c.isBlind(); err != nil && !isBlind {
			acts.Error = err.Error()
		}
	}
	return acts
}

// maxTried is how many actions are evaluated to find out whether one fails.
const maxTried = 1024

var errTried = errors.New("enough actions were evaluated")

// tried returns why an action cannot be evaluated, of the first ones.
func tried(w *rule.Walker) error {
	n := 0
	err := w.Walk(nil, func(p rule.Piece) error {
		if n += len(p.Actions); n >= maxTried {
			return errTried
		}
		return nil
	})
	if errors.Is(err, errTried) {
		return nil
	}
	return err
}

// consider evaluates the forEach and the if of one action.
func (c *Case) consider(t *rule.ActionTemplate, env expr.Env, one *OwnAction) {
	elements, masked := []any{nil}, c.maskedEnv(env)
	var maskedElements []any // nil: they cannot be compared with elements
	if t.ForEach != nil {
		one.ForEach = c.trace(t.ForEach, env, masked)
		var err error
		if elements, err = t.ForEach.Elements(&env); err != nil {
			return
		}
		if masked != nil {
			maskedElements, err = t.ForEach.Elements(masked)
			if err != nil || len(maskedElements) != len(elements) {
				maskedElements = nil
			}
		}
	}
	one.Made = 0
	for i, item := range elements {
		env.Item = item
		if maskedElements != nil {
			masked.Item = maskedElements[i]
		}
		if t.If == nil {
			one.Made++
			continue
		}
		holds, err := t.If.Bool(&env)
		if one.If == nil || !holds && one.If.Error == "" && !one.If.isFalse() {
			one.If = c.traceIf(t, env, masked, t.ForEach == nil || maskedElements != nil)
			if t.ForEach != nil {
				one.Item = &i
			}
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
// Secret's values. If nobody knows what it is without them, only the result is shown.
func (c *Case) traceIf(
	t *rule.ActionTemplate, env expr.Env, masked *expr.Env, isComparable bool,
) *Part {
	if masked == nil || isComparable {
		return c.trace(t.If, env, masked)
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
		if o.Item != nil {
			why += fmt.Sprintf(" for item %d", *o.Item)
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
	case a.What == trail.Unchanged.String():
		return begin + "For " + event + ", nothing had to change, " + ago +
			": all was as the rule's actions ask."
	case a.What == trail.Vanished.String():
		return begin + "The actions for " + event + " changed nothing, " + ago +
			": an object that they are about is gone, or its namespace ends."
	case a.Event == delta.Deleted.String() && a.What == trail.Pruned.String():
		return begin + "For " + event + ", the rule pruned what it had applied, " + ago + "."
	}
	text := begin + "No action for " + event + ", " + ago + ": " + x.whyIdle()
	if a.What == trail.Pruned.String() {
		text += ". It pruned what it had applied"
	}
	return text + "."
}

// failing are the results of actions that failed.
var failing = []string{"conflict", "denied", "rejected", "failed"}

// addOutcomes says which of the actions for the last event were not performed, and why.
func (x *Explanation) addOutcomes() {
	a := last(x.Attempts)
	if x.Acts == nil || x.Acts.IsNow || a == nil || !x.isLive() {
		return
	}
	why, isPartial := x.undone(a)
	if !isPartial {
		for i := range x.Acts.Actions {
			x.Acts.Actions[i].Outcome = why
		}
		return
	}
	// What each action came to in the last attempt in which it was tried.
	results, tried := make(map[string][]string), make(map[string]int)
	for _, d := range x.Actions {
		if d.ID != a.ID || d.Label == "" || d.Attempt < tried[d.Label] {
			continue
		}
		if d.Attempt > tried[d.Label] {
			results[d.Label], tried[d.Label] = nil, d.Attempt
		}
		results[d.Label] = append(results[d.Label], d.Result)
	}
	hasFailed := func(one OwnAction) bool {
		return slices.ContainsFunc(results[one.Label], func(result string) bool {
			return slices.Contains(failing, result)
		})
	}
	because := "the event was refused"
	if i := slices.IndexFunc(x.Acts.Actions, hasFailed); i >= 0 {
		because = x.Acts.Actions[i].Label + " failed"
	}
	for i := range x.Acts.Actions {
		switch one := &x.Acts.Actions[i]; {
		case hasFailed(*one):
			one.Outcome = "failed"
		case len(results[one.Label]) == 0 && !x.ForgetsActions:
			one.Outcome = "not performed: " + because
		}
	}
}

// undone says why none of the actions for an event whose last attempt is a were performed; "" if they
// were. isPartial says that they began and did not end well.
func (x *Explanation) undone(a *Happened) (why string, isPartial bool) {
	hasBegun := slices.ContainsFunc(x.Attempts, func(b Happened) bool {
		return b.What == trail.Acts.String() && b.ID == a.ID && b.Attempt == a.Attempt
	})
	switch a.What {
	case "acted", "unchanged", "gone", "pruned", "idle", "acts":
		return "", false
	case "tried":
		return "only logged: informd runs dry", false
	case "unmade":
		return "not performed: an expression failed", false
	case "outdated":
		return "not performed: the object has changed since", false
	case "cancelled":
		return "not performed yet: the attempt was cancelled", false
	case "sent", "done":
		return "not performed yet: handler " + x.Handler + " comes first", false
	}
	if hasBegun || x.Handler == ownActions {
		return "", true
	}
	return map[string]string{
		"reject": "not performed: the handler rejected the event",
		"dead":   "not performed: the handler failed with the event for the last time",
		"retry":  "not performed yet: the handler failed with the event",
		"lost":   "not performed yet: the handler went away with the event",
	}[a.What], false
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
	looksUp := func(a OwnAction) bool { return a.LooksUp }
	switch n := x.Acts.Made(); {
	case slices.ContainsFunc(x.Acts.Actions, looksUp):
		return subject + " perform actions or not: that depends on what they look up, which is not " +
			"known without a daemon."
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
