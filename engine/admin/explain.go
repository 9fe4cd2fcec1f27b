package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/trail"
)

// Explain says why a rule does, or does not, deliver anything about an object. mask returns the
// JSON of a Secret without its values; nil shows them, and what may quote them. If there is no such
// rule, the error wraps ErrNotFound. An object that does not exist is no error.
func (d *Desk) Explain(
	rule string, key delta.Key, mask func([]byte) json.RawMessage,
) (explain.Explanation, error) {
	r := d.rule(rule)
	if r == nil {
		return explain.Explanation{}, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	if r.Source.IsRule() {
		key = delta.Key{Name: r.Name}
	}
	known := d.look(r, key)
	if why := d.whyAside(r, key); why != "" {
		known.object, known.reason = nil, why // evaluating it could end informd
	}
	c := explain.Case{
		Rule: r.Rule, Key: key, Object: known.object, Follows: true, Mark: known.mark,
		Caches: r.Preparer.Changes, Now: d.clock.Now(), Mask: mask,
	}
	if n := len(known.changes); n > 0 {
		c.Last = &known.changes[n-1]
	}
	c.ActionCaches = r.Preparer.ActionCaches
	attempts := attemptsAt(r, key, known)
	r.Trails.SinceSelected(attempts)
	if n := len(attempts); n > 0 {
		c.LastAttempt = &attempts[n-1]
	}
	x := explain.Explain(c)
	x.Since = r.Trails.Changes.Since(r.Trails.Began)
	x.HasForgotten = x.Since.After(r.Trails.Began)
	x.State, x.Reason = d.standing(r)
	x.Next, x.IsScheduled = r.NextRound(), r.IsScheduled
	if known.reason != "" {
		x.Standing, x.Where, x.When = explain.Unknown, nil, nil
		x.Reason = cmp.Or(x.Reason, known.reason)
	}
	for i := range known.changes {
		x.Changes = append(x.Changes, happened(r.Name, &known.changes[i]))
	}
	x.Changes = x.Changes[max(0, len(x.Changes)-maxExplained):]
	d.addDelivery(&x, r, known, attempts, mask != nil)
	x.Conclude()
	return x, nil
}

// maxExplained bounds the changes, and the attempts, that Explain lists.
const maxExplained = 10

// known is what a rule knows of an object.
type known struct {
	key     delta.Key
	object  *object.Object
	mark    time.Time
	changes []trail.Entry // what became of the last changes
	reason  string        // why the rule has not seen the object yet, or not as it is
}

// look returns what a rule knows of an object. Between two steps of the informer, all of it belongs
// to the same state of the object.
func (d *Desk) look(r *live.Rule, key delta.Key) (k known) {
	k.key, k.changes = key, r.Trails.Changes.Of(key)
	if !d.phase.Loaded.Load() { // intakes are Run's alone until the state is loaded
		k.reason = errNotRestored.Error()
		return k
	}
	name := object.FromIdentity(key.Namespace, key.Name, "", "").Key()
	for _, in := range d.present.Work().Intakes {
		of := in.Informer.Selection().Namespace
		if !slices.Contains(in.Rules, r) || of != "" && of != key.Namespace {
			continue
		}
		in.Look(func(in *intake.Intake, get func(string) *object.Object) {
			i := slices.Index(in.Rules, r)
			if i < 0 { // it has just changed
				return
			}
			o := get(name)
			switch state, why := in.Informer.State(); {
			case in.Lacks(i, o), o == nil && !in.Informer.HasSynced():
				k.reason = strings.TrimSuffix(fmt.Sprintf("its source is %s: %s", state, why), ": ")
				if waits, reason := r.Reason(); waits && in.Informer.HasSynced() {
					k.reason = "the rule " + reason
				}
			case o == nil:
				return
			}
			k.object, k.changes = o, r.Trails.Changes.Of(key)
			if o != nil {
				k.mark = in.Mark(i, o)
			}
		})
	}
	return k
}

// standing returns the state of a rule, and the reason.
func (d *Desk) standing(r *live.Rule) (state, reason string) {
	is, why := stateOf(r, statusOf(r.OwnSource))
	return string(is), why
}

func happened(rule string, e *trail.Entry) explain.Happened {
	return explain.Happened{Time: e.At, ResourceVersion: e.Version, Outcome: explain.OutcomeOf(rule, e)}
}

// addDelivery adds what the rule has counted, gathered, delivered and done. hides says that reasons
// which may quote a Secret are not shown.
func (d *Desk) addDelivery(
	x *explain.Explanation, r *live.Rule, k known, attempts []trail.Entry, hides bool,
) {
	key := k.key
	if o := k.object; o != nil && r.Count != nil {
		of, _ := r.Count.Of(delta.Delta{Object: o}, o.Decode(r.Paths()))
		x.Count.Have = r.Tally.Have(of, x.Time)
	}
	for _, entry := range attempts {
		x.Attempts = append(x.Attempts, happened(r.Name, &entry))
	}
	x.Attempts = x.Attempts[max(0, len(x.Attempts)-maxExplained):]
	now := r.Lane.Look(key)
	if x.Group != nil {
		x.Group.Gathered, x.Group.Next = now.Gathered, now.Next
	}
	if now.IsHeld {
		x.Delivery = &explain.Delivery{
			Handler: r.HandlerName(), Waiting: now.Waiting, Paused: r.Lane.Paused(),
			Since: now.Since, Retry: now.Due, RetryOnChange: now.Yields,
			Failure: failureOf(r, key, attempts, hides),
			Slowed:  strings.TrimPrefix(d.chasing(r.Name), "slowed: "),
		}
		if d := &now.First; now.HasFirst {
			x.Delivery.ID, x.Delivery.Event = r.Lane.ID(now), d.Delta.Type.String()
			x.Delivery.Attempts, x.Delivery.Failures = d.Attempts, d.Failures
			x.Delivery.Losses, x.Delivery.Refusals = d.Losses, int(d.Refusals)
		}
		n := len(x.Attempts)
		x.Delivery.InFlight = now.InFlight && n > 0 && isUnderWay(x.Attempts[n-1].What)
	}
	d.addLetters(x, key, hides)
	x.Targets = shown{d, d.present.Work(), r, hides}.of(key, maxTargets)
	done := r.Trails.Acted.List()
	if n := len(attempts); n > 0 && len(done) == live.MaxActed {
		x.ForgetsActions = done[0].Delivery == attempts[n-1].ID(r.Name)
	}
	for _, d := range done {
		if isAbout(d.Delivery, k) {
			x.Actions = append(x.Actions, explain.Action{
				Time: d.At, Verb: d.Verb, Resource: object.ResourceName(d.Resource),
				Object: delta.Key{Namespace: d.Namespace, Name: d.Name}.String(),
				Result: string(d.Result), ID: d.Delivery, Attempt: d.Attempt, Label: d.Label,
			})
		}
	}
}

// isUnderWay reports whether an attempt has begun and not ended.
func isUnderWay(what string) bool {
	return what == trail.Sent.String() || what == trail.Acts.String()
}

// attemptsAt returns the last attempts at events of an object. If its last change went along with
// the event of its group, those are attempts at that.
func attemptsAt(r *live.Rule, key delta.Key, k known) []trail.Entry {
	n := len(k.changes)
	if r.Group == nil || k.object == nil || n == 0 || k.changes[n-1].Verdict != trail.Gathered {
		return r.Trails.Attempts.Of(key)
	}
	of, _ := r.Group.Of(delta.Delta{Object: k.object}, r.Preparer.Changes.Scope(r.Preparer.Clock.Now()))
	if last, ok := r.Lane.LastObject(of); ok {
		return slices.DeleteFunc(r.Trails.Attempts.Of(last), func(e trail.Entry) bool {
			return last != key && e.Number < k.changes[n-1].Number
		})
	}
	return r.Trails.Attempts.Of(key)
}

// isAbout reports whether an event is about an object.
func isAbout(id string, k known) bool {
	parts := strings.Split(id, "/")
	if len(parts) < 2 {
		return false
	}
	return k.object != nil && parts[1] == k.object.UID() ||
		slices.ContainsFunc(k.changes, func(e trail.Entry) bool { return e.UID == parts[1] })
}

// failureOf returns why the last attempt at an object failed, if that is known.
func failureOf(r *live.Rule, key delta.Key, attempts []trail.Entry, hides bool) string {
	f, ok := r.Lane.LastFailure()
	for i := len(attempts) - 1; i >= 0 && (!ok || f.Key != key); i-- {
		if a := &attempts[i]; a.Reason != "" {
			f = dispatch.Failure{Key: key, Reason: a.Reason, Confidential: a.IsConfidential}
			ok = true
		}
	}
	switch {
	case !ok || f.Key != key:
		return ""
	case hides && f.Confidential:
		return "not shown, as it may quote a secret"
	}
	return f.Reason
}

// chasing says why informd holds events of a rule back, or returns "".
func (d *Desk) chasing(rule string) string {
	w := d.present.Work()
	return d.acting.Chasing(rule, func(name string) bool {
		return slices.ContainsFunc(w.Rules, func(r *live.Rule) bool {
			return r.Name == name || r.Former == name
		})
	})
}

// addLetters adds the dead letters of an object.
func (d *Desk) addLetters(x *explain.Explanation, key delta.Key, hides bool) {
	letters, _ := d.Letters() // without them the answer is what it is
	for _, l := range letters {
		isItem := slices.ContainsFunc(l.Items, func(i delivery.Item) bool {
			return i.Delta.Key() == key
		})
		if l.Rule != x.Rule || l.Key != key && !isItem {
			continue
		}
		letter := explain.Letter{ID: l.ID, Died: l.Died, Attempts: l.Attempts, Reason: l.Reason}
		if hides && (l.OfSecret() || l.Confidential) && !l.Plain && l.Reason != "" {
			letter.Reason = "***"
		}
		x.DeadLetters = append(x.DeadLetters, letter)
	}
}
