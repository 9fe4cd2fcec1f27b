package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/trail"
)

// Case is what is known of a rule and an object. It has many fields because an explanation looks at
// everything that decides over a change.
type Case struct {
	Rule *plan.Rule
	Key  delta.Key
	// Object is the object as the rule has seen it last; nil: it is not there.
	Object *object.Object
	// Old is the state before, if Object is a change and its old state is at hand.
	Old *object.Object
	// Follows says that the rule has seen Object, and that Mark is its mark. Otherwise the answer
	// is about what the rule makes of it at first sight.
	Follows bool
	Mark    time.Time // see rule.Rule.IsTimed
	// Caches are what when looks into, and ActionCaches what actions do; nil: nothing.
	Caches, ActionCaches *evaluate.Caches
	// Last is the newest change of the object that is remembered, if any, and LastAttempt the
	// newest attempt at an event of it.
	Last, LastAttempt *trail.Entry
	Now               time.Time
	// Mask returns the JSON of a Secret without its values. nil shows them.
	Mask func(text []byte) json.RawMessage

	paths *object.Paths // what is read of objects; nil: what Rule.Paths says
	asked *bool         // an expression has looked something up
}

// scope is what a rule's expressions look into. It notes that one has done so.
type scope struct {
	*evaluate.Scope
	asked *bool
}

// ByIndex implements expr.Cache.
func (s scope) ByIndex(index, value string) expr.Found {
	*s.asked = true
	return s.Scope.ByIndex(index, value)
}

// Lookup implements expr.Cache.
func (s scope) Lookup(source, index, value string) expr.Found {
	*s.asked = true
	return s.Scope.Lookup(source, index, value)
}

// isBlind reports whether an expression has looked something up since the last call, and nobody
// knows what is there.
func (c *Case) isBlind() bool {
	asked := *c.asked
	*c.asked = false
	return asked && c.Caches == nil && !c.Follows
}

// Explain explains a case, as far as it goes without deliveries. Answer is empty: the caller adds
// what it knows, and then calls Conclude.
func Explain(c Case) Explanation {
	r := c.Rule
	c.asked = new(bool)
	x := Explanation{
		Rule: r.Name, Handler: handlerOf(r), Object: c.Key.String(), Time: c.Now,
	}
	x.Events = eventsOf(r)
	x.Source = Source{Name: r.Source.Name, Resource: object.ResourceName(r.Source.Resource)}
	if r.Count != nil {
		x.Count = &Count{
			Times: r.Count.Times, Within: short(r.Count.Within), By: text(r.Count.By), Have: -1,
		}
	}
	if r.Group != nil {
		x.Group = &Group{By: text(r.Group.By)}
	}
	if r.IsTimed() {
		x.Timing = new(Timing)
		if r.For > 0 {
			x.Timing.For = short(r.For)
		}
	}
	c.selections(&x)
	if c.Object == nil || !x.Source.Has {
		c.acts(&x)
		return x
	}
	x.ResourceVersion, x.uid = c.Object.ResourceVersion(), c.Object.UID()
	// rule.Set finds a rule by the conditions that its when requires.
	x.seesAll = r.IsTimed() || r.When == nil || len(r.When.Requires()) == 0
	env := expr.Env{Object: c.tree(c.Object)}
	if r.Where != nil {
		x.Where = c.trace(r.Where, env, c.maskedEnv(env))
	}
	c.membership(&x, env)
	c.change(&x)
	if c.Follows {
		c.acts(&x)
	}
	return x
}

// handlerOf returns the handler of a rule, or what takes its place in reports.
func handlerOf(r *plan.Rule) string {
	if r.OnlyMeasures() {
		return onlyMetrics
	}
	return cmp.Or(r.Handler, ownActions)
}

func text(p *expr.Program) string {
	if p == nil {
		return ""
	}
	return p.Text()
}

// eventsOf returns the types of changes that a rule selects.
func eventsOf(r *plan.Rule) (names []string) {
	for _, t := range []delta.Type{delta.Added, delta.Updated, delta.Deleted, delta.Synced} {
		if r.Events.Has(t) {
			names = append(names, t.String())
		}
	}
	return names
}

// selections says which selections of the source have the object.
func (c *Case) selections(x *Explanation) {
	if c.Rule.Source.IsRule() {
		x.Source.Has = c.Object != nil
		if x.Standing = Absent; c.Object != nil {
			x.Standing = Member
		}
		return
	}
	x.Standing = Unselected
	for _, i := range c.Rule.Source.Informers {
		s := Selection{
			Namespace:     i.Namespace,
			LabelSelector: i.LabelSelector, FieldSelector: i.FieldSelector,
		}
		selector, err := plan.NewSelector(i.Selection)
		switch {
		case err != nil: // cannot happen: config has checked it
			s.WhyNot = err.Error()
		case c.Object == nil && i.Namespace != "" && i.Namespace != c.Key.Namespace:
			s.WhyNot = "it selects the namespace " + i.Namespace + " alone"
		case c.Object == nil:
			x.Standing = Absent
		case !c.Follows:
			s.WhyNot = selector.WhyNot(c.Object)
			x.Source.Has = x.Source.Has || s.WhyNot == ""
		case i.Namespace == "" || i.Namespace == c.Object.Namespace():
			x.Source.Has = true // the server has selected it
		default:
			s.WhyNot = "it selects the namespace " + i.Namespace + " alone"
		}
		x.Source.Selections = append(x.Source.Selections, s)
	}
}

func (c *Case) tree(o *object.Object) any {
	if o == nil {
		return nil
	}
	return o.Decode(c.reads())
}

func (c *Case) reads() *object.Paths {
	if c.paths != nil {
		return c.paths
	}
	return c.Rule.Paths()
}

// hides reports whether anything that the rule reads may be a Secret's value that is not shown.
func (c *Case) hides() bool {
	return c.Mask != nil && (c.Rule.Source.Resource == object.Secrets ||
		slices.ContainsFunc(c.Rule.LooksInto, func(s *plan.Source) bool {
			return s.Resource == object.Secrets
		}))
}

// masked returns an object without the values of a Secret.
func (c *Case) masked(o *object.Object) *object.Object {
	if o == nil || c.Rule.Source.Resource != object.Secrets {
		return o
	}
	return maskedWith(o, c.Mask)
}

func maskedWith(o *object.Object, mask func([]byte) json.RawMessage) *object.Object {
	m, err := object.FromJSON(mask(o.JSON()))
	if err != nil { // cannot happen: a masked object has all that identifies it
		return object.FromIdentity(o.Namespace(), o.Name(), o.UID(), o.ResourceVersion())
	}
	return m
}

// maskedCache is a source of Secrets without their values.
type maskedCache struct {
	evaluate.Cache
	mask func([]byte) json.RawMessage
}

// ByIndex implements evaluate.Cache.
func (m maskedCache) ByIndex(index, value string) (object.Bucket, error) {
	found, err := m.Cache.ByIndex(index, value)
	out := make([]*object.Object, 0, found.Len())
	for o := range found.All() {
		out = append(out, maskedWith(o, m.mask))
	}
	return object.BucketOf(out), err
}

// maskedEnv returns what an expression sees if the values of Secrets are masked, or nil if it sees
// none.
func (c *Case) maskedEnv(env expr.Env) *expr.Env {
	if !c.hides() {
		return nil
	}
	env.Object, env.Old = c.tree(c.masked(c.Object)), c.treeOfOld(env, c.masked(c.Old))
	if env.Cache != nil {
		env.Cache = c.lookup(true, env.Now)
	}
	return &env
}

func (c *Case) treeOfOld(env expr.Env, masked *object.Object) any {
	if env.Old == nil {
		return nil
	}
	return c.tree(masked)
}

// lookup returns what the rule's expressions look into.
func (c *Case) lookup(isMasked bool, now time.Time) scope {
	caches := &evaluate.Caches{Own: evaluate.Reading{Paths: c.reads()}}
	if c.Caches != nil {
		*caches = *c.Caches
	}
	caches.Own = named(caches.Own)
	caches.Others = maps.Clone(caches.Others)
	for name, reading := range caches.Others {
		caches.Others[name] = named(reading)
	}
	if isMasked {
		if c.Rule.Source.Resource == object.Secrets && caches.Own.Cache != nil {
			caches.Own.Cache = maskedCache{caches.Own.Cache, c.Mask}
		}
		others := make(map[string]evaluate.Reading, len(caches.Others))
		for name, reading := range caches.Others {
			isSecret := slices.ContainsFunc(c.Rule.LooksInto, func(s *plan.Source) bool {
				return s.Name == name && s.Resource == object.Secrets
			})
			if isSecret {
				reading.Cache = maskedCache{reading.Cache, c.Mask}
			}
			others[name] = reading
		}
		caches.Others = others
	}
	return scope{caches.Scope(now), c.asked}
}

// named returns r with the names of objects, which tell a reader what was found.
func named(r evaluate.Reading) evaluate.Reading {
	paths := new(object.Paths)
	paths.Union(r.Paths)
	paths.Add("metadata", "namespace")
	paths.Add("metadata", "name")
	r.Paths = paths
	return r
}

// trace evaluates a program, and hides what depends on Secrets.
func (c *Case) trace(p *expr.Program, env expr.Env, masked *expr.Env) *Part {
	traced := p.Traced()
	whole, _ := traced.Trace(&env)
	out := PartOf(whole)
	if masked != nil {
		as, _ := traced.Trace(masked)
		other := PartOf(as)
		result := out.Value // what became of the object shows it anyway
		out.mask(&other)
		if string(result) == "true" || string(result) == "false" {
			out.Value = result
		}
	}
	return &out
}

// membership says how the object relates to the rule.
func (c *Case) membership(x *Explanation, env expr.Env) {
	r := c.Rule
	if !r.IsTimed() {
		x.Standing = Member
		if r.Where != nil {
			if inside, _ := r.Where.Bool(&env); !inside {
				x.Standing = Outside
			}
		}
		return
	}
	if r.Due != nil {
		x.Timing.Due = c.trace(r.Due, env, c.maskedEnv(env))
	}
	x.Timing.isHidden = r.Due != nil && bytes.Equal(x.Timing.Due.Value, hidden)
	isCandidate, _ := r.IsCandidate(env.Object)
	mark := c.Mark
	if !c.Follows {
		first := delta.Delta{Type: delta.Added, Object: c.Object}
		_, _, mark, _ = r.MemberInTime(first, rule.Progress{}, c.lookup(false, c.Now))
	}
	switch {
	case !isCandidate:
		x.Standing = Outside
	case mark.IsZero():
		x.Standing = Member
	default:
		x.Standing = Waiting
		if !x.Timing.isHidden {
			x.Timing.At = r.Ready(mark)
		}
		if r.For > 0 {
			x.Timing.Since = mark
		}
	}
}

// change explains the result of when for the last change, or for a supposed one if informd no
// longer has the last.
func (c *Case) change(x *Explanation) {
	r := c.Rule
	if !c.Follows {
		c.judge(x)
		return
	}
	if r.When == nil || x.Standing != Member {
		return
	}
	x.When = &When{Text: r.When.Text(), Event: c.supposed().String(), IsNow: true}
	env := expr.Env{Object: c.tree(c.Object), Now: c.Now}
	isLast := c.Last != nil && c.Last.Version == c.Object.ResourceVersion()
	// rule.Set finds a rule by the conditions that its when requires.
	x.When.IsSkipped = !isLast && !r.IsTimed() && slices.ContainsFunc(r.When.Requires(),
		func(required expr.Condition) bool { return !isMet(env.Object, required) })
	if isLast {
		x.When.Event, x.When.IsNow = c.Last.Type.String(), false
		env.Now = c.Last.At
		if r.IsScheduled && c.Last.Type == delta.Synced {
			env.Moment = time.Unix(c.Last.Round, 0)
		}
		if c.Last.Type == delta.Deleted || c.Last.Type == delta.Updated && r.When.ReadsOld() {
			return
		}
	} else if c.supposed() == delta.Updated && r.When.ReadsOld() {
		return
	}
	c.evaluateWhen(x, env)
}

// supposed returns the type of a change of which the answer says what the rule would make of it
// now: one that its events have.
func (c *Case) supposed() delta.Type {
	for _, t := range []delta.Type{delta.Synced, delta.Added, delta.Updated} {
		if c.Rule.Events.Has(t) {
			return t
		}
	}
	return delta.Deleted
}

// isMet reports whether a condition holds of an object with this tree.
func isMet(tree any, c expr.Condition) bool {
	for _, key := range c.Path {
		fields, _ := tree.(map[string]any)
		tree = fields[key]
	}
	text, ok := tree.(string)
	return ok && slices.Contains(c.Values, text)
}

func (c *Case) evaluateWhen(x *Explanation, env expr.Env) {
	env.Event, env.Cache = x.When.Event, c.lookup(false, env.Now)
	x.When.Part = c.trace(c.Rule.When, env, c.maskedEnv(env))
}

// judge says what the rule makes of a change that it has not seen: an addition, or with an old
// state an update.
func (c *Case) judge(x *Explanation) {
	r, look := c.Rule, c.lookup(false, c.Now)
	d := delta.Delta{Type: delta.Added, Object: c.Object}
	if x.Old = c.Old != nil; x.Old {
		d = delta.Delta{Type: delta.Updated, Object: c.Object, Old: c.Old}
	}
	var m rule.Match
	var ok bool
	if r.IsTimed() {
		m, ok, _, _ = r.MemberInTime(d, rule.Progress{}, look)
	} else {
		m, ok, _ = r.Member(d, look)
	}
	if m.Delta.Object == nil {
		if x.Standing != Member {
			return
		}
		m.Delta = d // the type alone leaves it out, whatever where is
	}
	verdict := trail.ByEvents
	if ok {
		verdict = c.decide(x, m.Delta, look)
	}
	x.Changes = append(x.Changes, Happened{
		Time: c.Now, ResourceVersion: m.Delta.Object.ResourceVersion(), Outcome: Outcome{
			Event: m.Delta.Type.String(), What: verdict.String(), ID: m.Delta.ID(r.Name),
		},
	})
}

// decide evaluates when for a change of a member.
func (c *Case) decide(x *Explanation, d delta.Delta, look scope) trail.Verdict {
	r := c.Rule
	if r.When != nil {
		of := *c
		of.Object = d.Object
		env := expr.Env{Object: of.tree(d.Object), Now: c.Now}
		if d.Type == delta.Updated {
			env.Old = of.tree(d.Old)
		}
		x.When = &When{Text: r.When.Text(), Event: d.Type.String()}
		c.isBlind()
		of.evaluateWhen(x, env)
		if x.When.LooksUp = c.isBlind(); x.When.LooksUp {
			return trail.Undecided
		}
	}
	switch m, ok, err := r.Decide(d, look); {
	case !ok && err != nil:
		return trail.Failed
	case !ok:
		return trail.ByWhen
	case m.Count != nil && r.Count.Times > 1:
		return trail.ByCount
	case r.Group != nil:
		return trail.Gathered
	}
	if r.Actions != nil {
		x.Acts = c.considered(d, c.Now)
	}
	return trail.Selected
}

// short returns a duration as manifests write it.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
