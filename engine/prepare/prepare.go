// Package prepare completes the deliveries of a rule just before an attempt. It decides what was
// left undecided, makes the payload of merged changes, attaches objects, and makes the actions of
// rules that act themselves.
//
// It is pure: its results depend on the rule, the draft, the caches as they are now, and the time.
// It logs and counts nothing, and knows neither lanes nor handlers. Whatever goes wrong with a rule
// is part of the [Result], even the panic of an evaluation.
package prepare

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Source holds the current objects of a source. It is safe for concurrent use.
type Source interface {
	evaluate.Cache
	Name() string
	// HasSynced reports whether the source has everything that the API server has.
	HasSynced() bool
	Get(namespace, name string) (*object.Object, bool)
}

// Recipe completes the deliveries of one rule. It is immutable and safe for concurrent use.
type Recipe struct {
	Rule   *plan.Rule
	own    Source
	others []Source
	// The caches that the rule's expressions look into: Changes for when and payload, ActionCaches
	// for actions, attachments for attach. The latter two are nil if the rule has none.
	Changes, ActionCaches *evaluate.Caches
	attachments           *evaluate.Caches
	reveals               bool // see Reveals
}

// New returns the Recipe of a rule. source returns a source of the plan by its name.
func New(r *plan.Rule, source func(name string) Source) *Recipe {
	p := &Recipe{Rule: r, own: source(r.Source.Name)}
	for _, s := range r.LooksInto {
		p.others = append(p.others, source(s.Name))
	}
	caches := func(own *object.Paths, lookups rule.Lookups) *evaluate.Caches {
		c := &evaluate.Caches{
			Own: evaluate.Reading{Cache: p.own, Paths: own},
		}
		for name, paths := range lookups {
			if c.Others == nil {
				c.Others = make(map[string]evaluate.Reading, len(lookups))
			}
			c.Others[name] = evaluate.Reading{Cache: source(name), Paths: paths}
		}
		return c
	}
	p.Changes = caches(r.Reads, r.Lookups())
	if r.Attached != nil {
		p.attachments = caches(r.AttachPaths(), r.AttachLookups())
	}
	if r.Actions != nil {
		p.ActionCaches = caches(r.Actions.Paths(), r.Actions.Lookups())
	}
	p.reveals = r.Payload != nil && !p.IsSecret() &&
		slices.ContainsFunc(r.LooksInto, func(s *plan.Source) bool {
			_, looks := p.Changes.Others[s.Name]
			return looks && s.Resource == object.Secrets
		})
	return p
}

// Result is a completed draft, with what went wrong.
type Result struct {
	delivery.Prepared
	// Steps are the rule's own actions, if they are few and small. Walk makes them otherwise.
	// Prepared.Acts stays nil.
	Steps []rule.Piece
	Walk  Walk
	// PruneBy is a label selector. The rule deletes the objects that it selects unless its actions
	// apply them. "" deletes nothing.
	PruneBy string
	// Selected means that the draft was undecided and the rule selects it.
	Selected bool
	// Samples are what the change adds to the rule's counters if it is Selected.
	Samples []measure.Sample
	// Failures are the errors of expressions. They hold no contents of objects.
	Failures []error
	// Err says why nothing can be delivered. If it wraps handler.ErrReject, another attempt would
	// not help.
	Err error
}

func (r *Result) fail(err error) {
	if err != nil {
		r.Failures = append(r.Failures, err)
	}
}

// Prepare completes a draft. It decides, renews or remakes the payload as the draft asks. Then it
// attaches objects for a handler, or makes the rule's own actions.
func (p *Recipe) Prepare(d delivery.Draft, now time.Time) (r Result) {
	r.Delta, r.Payload = d.Delta, d.Payload
	if d.Undecided {
		p.decide(&r, now)
	}
	if d.Renew && !r.Nothing {
		p.renew(&r, now, p.actsNow(d))
	} else if d.Stale && !d.Undecided && !r.Nothing {
		p.remake(&r, now)
	}
	switch {
	case p.Rule.OnlyMeasures():
		r.Prepared, r.Err = delivery.Prepared{Nothing: true}, nil
	case r.Err != nil: // the draft stays as it was: undecided, or with the payload from before
		r.Prepared = delivery.Prepared{Count: r.Count}
	case r.Nothing, d.IsItem:
	case p.actsNow(d):
		p.act(&r, d.Items, now)
	case len(p.Rule.Attached) > 0:
		p.attach(&r, now)
	}
	return r
}

// actsNow reports whether the draft is for the rule's own actions, and not for its handler.
func (p *Recipe) actsNow(d delivery.Draft) bool {
	return p.Rule.Actions != nil && (p.Rule.Handler == "" || d.Acknowledged)
}

// contain turns a panic into an error. The caller defers it.
func contain(at string, err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("%spanic: %T", at, cause)
	}
}

// decide evaluates when and payload.
func (p *Recipe) decide(r *Result, now time.Time) {
	var mark *count.Hit
	var samples []measure.Sample
	isIdentity := p.IsSecret() && r.Delta.Type == delta.Deleted && IsIdentity(r.Delta.Object)
	p.adopt(r, func() (rule.Match, bool, error) {
		m, ok, err := evaluate.Decide(&p.Rule.Rule, r.Delta, isIdentity, p.Changes.Scope(now))
		mark, samples = m.Count, m.Samples
		return m, ok, err
	})
	r.Selected, r.Count, r.Samples = !r.Nothing, mark, samples
}

// adopt takes the result of evaluate as what is delivered, or nothing if there is no match. If the
// payload cannot be made, nothing can be delivered.
func (p *Recipe) adopt(r *Result, evaluate func() (rule.Match, bool, error)) {
	panics := true
	m, ok, err := func() (m rule.Match, ok bool, err error) {
		defer contain("", &err)
		m, ok, err = evaluate()
		panics = false
		return m, ok, err
	}()
	r.fail(err)
	if panics || m.Undecided {
		r.Err = handler.Reject(p.explained(r.Delta, err))
		return
	}
	if r.Nothing = !ok; ok {
		r.Delta, r.Payload = m.Delta, m.Payload
	}
}

// renew replaces the object of the change with the current one. For a handler, the result looks as
// if the change had been merged with those that led to the current object. It decides a rule's own
// actions again.
func (p *Recipe) renew(r *Result, now time.Time, acts bool) {
	o := r.Delta.Object
	is, ok := p.own.Get(o.Namespace(), o.Name())
	if ok && r.Delta.Type != delta.Deleted && is.UID() == o.UID() {
		r.Delta.Object = is
	}
	switch {
	case !acts:
		r.Payload = p.Payload(r.Delta, now, func(err error) {
			if r.fail(err); err != nil {
				r.Err = handler.Reject(p.explained(r.Delta, err))
			}
		})
	case !p.isInside(r.Delta.Object, now, r.fail):
		r.Nothing = true
	default:
		p.adopt(r, func() (rule.Match, bool, error) {
			return p.Rule.Decide(r.Delta, p.Changes.Scope(now))
		})
	}
}

// isInside reports whether an object satisfies where.
func (p *Recipe) isInside(o *object.Object, now time.Time, fail func(error)) (inside bool) {
	if p.Rule.Where == nil {
		return true
	}
	var err error
	func() {
		defer contain("", &err)
		inside, err = p.Rule.Where.Bool(&expr.Env{Object: p.Changes.Scope(now).Tree(o)})
	}()
	fail(err)
	return inside
}

// remake remakes the payload of a merged change. If that fails, the payload of the newer change
// stays. Without one, nothing can be delivered.
func (p *Recipe) remake(r *Result, now time.Time) {
	payload, err := p.payload(r.Delta, now)
	r.fail(err)
	switch {
	case err == nil && payload != nil:
		r.Payload = payload
	case err != nil && r.Payload == nil:
		r.Err = handler.Reject(p.explained(r.Delta, err))
	}
}

// explained adds to the error of a payload why it lacks something: see needs.
func (p *Recipe) explained(d delta.Delta, err error) error {
	needs := p.needs(d)
	if err == nil || len(needs) == 0 {
		return err
	}
	return fmt.Errorf("the Secret is gone, and informd keeps only the identity of a Secret over a "+
		"restart, but the payload reads %s: %w", strings.Join(needs, ", "), err)
}

// needs returns what the payload reads of a Secret that is gone beside its identity, and nil for
// other objects. informd writes no Secret to the disk, so after a restart nothing else is left.
func (p *Recipe) needs(d delta.Delta) (fields []string) {
	if !p.IsSecret() || !IsIdentity(d.Object) {
		return nil
	}
	o, ok := p.own.Get(d.Object.Namespace(), d.Object.Name())
	if ok && o.UID() == d.Object.UID() {
		return nil
	}
	for _, path := range p.Rule.PayloadPaths().Beyond(object.Identity()) {
		fields = append(fields, strings.Join(append([]string{"object"}, path...), "."))
	}
	return fields
}

func (p *Recipe) payload(d delta.Delta, now time.Time) (payload json.RawMessage, err error) {
	defer contain("", &err)
	return p.Rule.Remerge(d, p.Changes.Scope(now))
}

// Null stands for a payload that may not be kept.
var Null = json.RawMessage("null")

// Payload makes the payload of a change from the caches as they are now. It returns nil if the rule
// has none, and if the payload cannot be made.
func (p *Recipe) Payload(d delta.Delta, now time.Time, fail func(error)) json.RawMessage {
	if p.Rule.Payload == nil {
		return nil
	}
	payload, err := p.payload(d, now)
	fail(err)
	switch {
	case err != nil:
		return nil
	case payload == nil: // its expression yields nil
		return Null
	}
	return payload
}

// attach finds the objects that the rule attaches.
func (p *Recipe) attach(r *Result, now time.Time) {
	var err error
	func() {
		defer contain("attach: ", &err)
		r.Attached, err = p.Rule.Attach(r.Delta, p.attachments.Finder(now))
	}()
	if err != nil {
		r.fail(err)
		r.Err = handler.Reject(err)
	}
}

// Refill completes a change of a Secret from the cache, because only its identity was kept. The
// result has the current object and no old state. If the object is gone, it is a deletion. The
// payload is as for [Recipe.Payload].
func (p *Recipe) Refill(
	d delta.Delta, now time.Time, fail func(error),
) (delta.Delta, json.RawMessage) {
	o, ok := p.own.Get(d.Object.Namespace(), d.Object.Name())
	d.Old = nil
	switch {
	case d.Type == delta.Deleted:
	case ok && o.UID() == d.Object.UID():
		d.Object = o
	case p.Rule.Events.Has(delta.Deleted):
		d = delta.Delta{Type: delta.Deleted, Object: d.Object, Occasion: d.Occasion}
	}
	return d, p.Payload(d, now, fail)
}

// AsItIs returns the draft for a change of long ago, for a rule that acts itself. The draft is
// about the object as it is now. Otherwise the rule would undo what it has applied since. If the
// object does not exist or is outside, the draft is a deletion.
//
// ok is false if there is nothing to do. In particular, a later object of the same name may have
// been delivered since; then nothing applied for it may be pruned.
func (p *Recipe) AsItIs(
	d delta.Delta, now time.Time, fail func(error),
) (draft delivery.Draft, ok bool) {
	o, isInside := p.own.Get(d.Object.Namespace(), d.Object.Name())
	isInside = isInside && p.isInside(o, now, fail)
	switch {
	case isInside && d.Type != delta.Deleted && o.UID() == d.Object.UID():
		r := Result{Prepared: delivery.Prepared{Delta: d}}
		p.renew(&r, now, true)
		for _, err := range r.Failures {
			fail(err)
		}
		return delivery.Draft{Delta: r.Delta, Payload: r.Payload}, !r.Nothing
	case isInside:
		return delivery.Draft{}, false
	}
	gone := delta.Delta{Type: delta.Deleted, Object: d.Object, Occasion: d.Occasion}
	return delivery.Draft{Delta: gone}, p.Rule.Events.Has(delta.Deleted)
}

// IsSecret reports whether the rule's objects are Secrets, whose text may not be kept.
func (p *Recipe) IsSecret() bool { return p.Rule.Source.Resource == object.Secrets }

// Reveals reports whether payloads may hold text of Secrets that the rule looks up. Such payloads
// may not be kept.
func (p *Recipe) Reveals() bool { return p.reveals }

// IsMadeOfCaches reports whether deliveries, or parts of them, may be made from the caches at the
// time of the attempt.
func (p *Recipe) IsMadeOfCaches() bool {
	r := p.Rule
	return p.IsSecret() || p.Reveals() ||
		r.Payload.ReadsChange() || len(r.Attached) > 0 || r.Actions != nil
}

// IsIdentity reports whether an object holds nothing but its identity.
func IsIdentity(o *object.Object) bool { return o.IsIdentity() }
