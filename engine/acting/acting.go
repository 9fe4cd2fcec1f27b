// Package acting changes the cluster for rules and handlers: it says what each of them may do, has
// it done, and recognizes what a rule has done itself.
package acting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/plugins/handler"
)

// Acting performs actions in the cluster, for all handlers and rules. It is safe for concurrent
// use.
type Acting struct {
	*action.Executor
	options Options
	writes  *action.Writes // what rules have written lately
	breaker *action.Breaker
	failing failing
	// exists reports whether the cluster has an object.
	exists func(context.Context, schema.GroupVersionResource, delta.Key) (bool, error)
	// begin begins a wave's requests.
	begin func(
		ctx context.Context, by action.By, ev *handler.Event, stop func() bool,
	) sequence

	mu sync.Mutex // guards policies; a leaf
	// by handler: those with a spec.access.write
	policies map[string]*atomic.Pointer[action.Policy]
}

// Options say how to act. All but Observer, Verify and Virtual are set. The zero State keeps nothing.
type Options struct {
	Config    *rest.Config
	HTTP      *http.Client
	Discovery discovery.DiscoveryInterface
	Logger    *slog.Logger
	Clock     clock.PassiveClock
	// Rule returns the rule that made an event under this name, or nil.
	Rule func(name string) *live.Rule
	// Observer, if not nil, gets each action that was performed, concurrently. The rule remembers
	// it as well.
	Observer func(action.Done)
	// DryRun logs what actions would change instead of performing them.
	DryRun bool
	// Verify returns nil if this informd still leads. It is called once for each answer, and for
	// each attempt at a rule's own actions, before the first action. After an error none is
	// performed. nil means that this informd has no replicas.
	Verify func(context.Context) error
	// Targets has what becomes of each target of rules' own actions, and State the cuts in which it
	// changes.
	Targets *targets.Table
	State   live.Notes
	// ByID returns the rule with an ID of the state, or nil. It may be nil.
	ByID func(id string) *live.Rule
	// Inherit has the source objects of claims that have a target now tried soon. It does not block,
	// and may be called within a cut. It may be nil.
	Inherit func(heirs []targets.Claim)
	// Watched returns the resources of which rules receive changes now. The State keeps what rules
	// write of them. It may be nil: nothing is kept.
	Watched func() iter.Seq[schema.GroupVersionResource]
	// Virtual, if not nil, takes the place of the cluster.
	Virtual Virtual
}

// New returns an Acting. It asks the cluster for nothing.
func New(o Options) (*Acting, error) {
	if o.ByID == nil {
		o.ByID = func(string) *live.Rule { return nil }
	}
	if o.Inherit == nil {
		o.Inherit = func([]targets.Claim) {}
	}
	writes := action.NewWrites()
	if o.State.Store != nil && o.Watched != nil {
		writes.Keep(action.Keeping{Notes: o.State, Now: o.Clock.Now, Watched: o.Watched})
	}
	resources := discovery.ToServerResourcesInterfaceWithContext(o.Discovery)
	observer := func(d action.Done) {
		if r := o.Rule(d.Rule); r != nil {
			r.Trails.Acted.Add(d, o.Clock.Now())
		}
		if o.Observer != nil {
			o.Observer(d)
		}
	}
	options := action.Options{Logger: o.Logger, Observer: observer, Writes: writes}
	executor, err := action.New(o.Config, o.HTTP, resources, o.Clock.Now, options)
	if err != nil {
		return nil, err
	}
	a := &Acting{
		Executor: executor, options: o, writes: writes,
		breaker:  action.NewBreaker(writes, o.Clock.Now, o.Logger),
		policies: make(map[string]*atomic.Pointer[action.Policy]),
		exists:   executor.Exists,
		begin: func(
			ctx context.Context, by action.By, ev *handler.Event, stop func() bool,
		) sequence {
			return executor.Begin(ctx, by, ev, stop)
		},
	}
	if o.Virtual != nil {
		a.replace(o.Virtual)
	}
	return a, nil
}

// RestoreWrites restores what rules wrote before this process began, from all notes of the state
// that belong to no rule, by name. It is called within a cut, before anything acts.
func (a *Acting) RestoreWrites(notes iter.Seq2[string, []byte]) { a.writes.Restore(notes) }

// Configure sets what a lane needs if its rule has actions, or a handler h that may change the
// cluster. The lane then recognizes the rule's own changes, and so does r.Own, unless the rule asks
// for them.
func (a *Acting) Configure(o *dispatch.LaneOptions, r *live.Rule, h config.Handler) {
	if r.Actions == nil && len(h.Write) == 0 {
		return
	}
	o.Acts, o.ActsItself = true, r.Actions != nil
	if o.ActsItself {
		a.configureOwn(o, r)
	}
	if !r.OwnChanges {
		r.Own = own{a.writes, r.Source.Resource, r.Name, r.Former}
		o.Own = r.Own
	}
}

// configureOwn sets what a lane needs if its rule has actions.
func (a *Acting) configureOwn(o *dispatch.LaneOptions, r *live.Rule) {
	if r.Handler != "" {
		o.Actor = a.ForRules()
	}
	o.Account = account{a, r}
}

// account implements dispatch.Account for one rule.
type account struct {
	acting *Acting
	rule   *live.Rule
}

func (c account) asker(key delta.Key) targets.Asker { return targets.Asker{Rule: c.rule.ID, Key: key} }

// Digest implements dispatch.Account.
func (c account) Digest() uint64 { return c.rule.Preparer.ActsDigest() }

// Hasten implements dispatch.Account.
func (c account) Hasten(key delta.Key) { c.acting.options.Targets.Retry(c.asker(key)) }

// thinAtOnce is how many claims one cut forgets. A delivery that may have any number of them is not
// to hold up all others.
const thinAtOnce = 1000

// Ending implements dispatch.Account.
func (c account) Ending(key delta.Key) {
	o := &c.acting.options
	o.thin(func() bool { return o.Targets.Thin(c.asker(key), thinAtOnce) })
}

// thin calls some within cuts until it returns false.
func (o *Options) thin(some func() bool) {
	for isMore := true; isMore; {
		o.State.Pace()
		end := o.State.Begin()
		isMore = some()
		end()
	}
}

// End implements dispatch.Account.
func (c account) End(key delta.Key) {
	o := &c.acting.options
	o.Inherit(o.Targets.Forget(c.asker(key)))
	c.acting.failing.forget(c.asker(key))
}

// Chasing says why events of a rule are held back, or returns "". isRule reports whether a rule of
// that name exists.
func (a *Acting) Chasing(rule string, isRule func(name string) bool) string {
	return a.breaker.Chasing(rule, isRule)
}

// longPrune is how many deletions make a prune that takes more than a moment.
const longPrune = 100

// Progress says how far a long prune of a rule is, or returns "".
func (a *Acting) Progress(rule string) string {
	if done, of := a.Executor.Pruning(rule); of > longPrune {
		return fmt.Sprintf("prunes: %d of %d objects", done, of)
	}
	return ""
}

// actor implements dispatch.Actor for one handler, or for the rules' own actions.
type actor struct {
	*Acting
	handler string // empty if rules act themselves
	check   func(by action.By, ev *handler.Event, actions []handler.Action) error
}

// ForHandler returns the actor of a handler. If the handler lacks a permission, the error names the
// manifest line that would grant it.
func (a *Acting) ForHandler(h config.Handler) dispatch.Actor {
	policy := new(atomic.Pointer[action.Policy])
	policy.Store(policyOf(h))
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.policies, h.Name)
	if len(h.Write) > 0 {
		a.policies[h.Name] = policy
	}
	check := func(by action.By, ev *handler.Event, actions []handler.Action) error {
		return a.Executor.Check(*policy.Load(), by, ev, actions)
	}
	return &actor{Acting: a, handler: h.Name, check: check}
}

func policyOf(h config.Handler) *action.Policy {
	policy := &action.Policy{Handler: h.Name}
	for _, g := range h.Write {
		policy.Grants = append(policy.Grants, action.Grant{
			Resource: g.Resource, Subresource: g.Subresource, Verbs: g.Verbs,
			Namespaces: g.Namespaces, Names: g.Names, At: g.At.Position(0).String(),
		})
	}
	return policy
}

// Allow applies a new manifest h of a handler: the handler may change in the cluster what h.Write
// grants. Until done is called, the old permissions hold as well. done(true) keeps the new ones
// alone, done(false) the old ones alone. A handler that had no Write when ForHandler made its actor
// cannot get one: Allow then changes nothing.
func (a *Acting) Allow(h config.Handler) (done func(stands bool)) {
	a.mu.Lock()
	policy := a.policies[h.Name]
	a.mu.Unlock()
	if policy == nil {
		return func(bool) {}
	}
	before, after := policy.Load(), policyOf(h)
	both := slices.Concat(after.Grants, before.Grants)
	policy.Store(&action.Policy{Handler: h.Name, Grants: both})
	return func(stands bool) {
		if stands {
			policy.Store(after)
			return
		}
		policy.Store(before)
	}
}

// ForRules returns the actor of rules' own actions. It allows what the rules say now, because
// actions recorded before a restart may come from older rules.
func (a *Acting) ForRules() dispatch.Actor {
	check := func(by action.By, _ *handler.Event, actions []handler.Action) error {
		return allowed(a.options.Rule(by.Rule), by, actions)
	}
	return &actor{Acting: a, check: check}
}

// allowed returns an error unless a rule, which may be nil, asks for actions.
func allowed(r *live.Rule, by action.By, actions []handler.Action) error {
	for _, one := range actions {
		if r == nil || !r.AsksFor(one) {
			resource := object.ResourceName(schema.GroupVersionResource(one.Resource))
			return handler.Reject(fmt.Errorf(
				"rule %s does not ask for %s of %s", by.Rule, one.Verb, resource))
		}
	}
	return action.ValidateOwn(actions)
}

func (a *actor) by(ev *handler.Event) action.By { return a.byRule(a.options.Rule(ev.Rule), ev) }

// byRule is by for a rule, which may be nil.
func (a *actor) byRule(r *live.Rule, ev *handler.Event) action.By {
	by := action.By{
		Rule: ev.Rule, Handler: a.handler, Confidential: r == nil || r.Preparer.IsConfidential(),
	}
	if r != nil {
		by.Former = r.Former
	}
	return by
}

// Check implements dispatch.Actor.
func (a *actor) Check(ev *handler.Event, actions []handler.Action) error {
	return a.check(a.by(ev), ev, actions)
}

// Do implements dispatch.Actor.
func (a *actor) Do(ctx context.Context, ev *handler.Event, actions []handler.Action) error {
	if a.options.Virtual != nil {
		a.options.Virtual.Perform(a.handler, ev, actions)
		return nil
	}
	if a.options.DryRun {
		by := a.by(ev)
		a.Executor.Preview(ctx, by, ev, actions, func(p action.Preview) { a.preview(by, ev, p) })
		return nil
	}
	if err := a.verify(ctx); err != nil {
		return err
	}
	err := a.Executor.Do(ctx, a.by(ev), ev, actions)
	if errors.Is(err, action.ErrConflict) {
		err = fmt.Errorf("%w: %w", dispatch.ErrStale, err)
	}
	return err
}

// verify returns nil if this informd may change the cluster now. Otherwise the attempt ends.
func (a *Acting) verify(ctx context.Context) error {
	if a.options.Verify == nil {
		return nil
	}
	err := a.options.Verify(ctx)
	if err != nil {
		err = cmp.Or(ctx.Err(), fmt.Errorf("%w: %w", dispatch.ErrNotLeading, err))
	}
	return err
}

// preview logs what an action would do.
func (a *actor) preview(by action.By, ev *handler.Event, p action.Preview) {
	resource := object.ResourceName(schema.GroupVersionResource(p.Resource))
	if p.Subresource != "" {
		resource += "/" + p.Subresource
	}
	attrs := []any{
		"rule", ev.Rule, "handler", cmp.Or(a.handler, live.OwnActions), "verb", p.Verb,
		"resource", resource, "namespace", p.Namespace, "name", p.Name,
		"outcome", outcome(p), "id", ev.ID,
	}
	level := slog.LevelInfo
	if p.Err != nil {
		level = slog.LevelWarn
		about := p.Err.Error()
		if by.Confidential && action.Quotes(p.Err) {
			about = "not shown: it may quote a Secret"
		}
		attrs = append(attrs, "error", about)
	}
	if len(p.Diff) > 0 {
		attrs = append(attrs, "diff", strings.Join(p.Diff, "\n"))
	}
	a.options.Logger.Log(context.Background(), level, "would act", attrs...)
}

// outcome names the result of an action that was not performed.
func outcome(p action.Preview) string {
	switch {
	case p.Result != action.Changed:
		return string(p.Result)
	case p.Verb == handler.ActionDelete:
		return "deleted"
	case p.Verb == handler.ActionEvent:
		return "recorded"
	}
	return "changed"
}

// Delay implements dispatch.Actor.
func (a *actor) Delay(ctx context.Context, ev *handler.Event) time.Duration {
	return a.breaker.Delay(ctx, ev.Rule, ev)
}
