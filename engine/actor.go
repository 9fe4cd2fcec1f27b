package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// acting performs actions in the cluster, for all handlers and rules.
type acting struct {
	executor *action.Executor
	writes   *action.Writes
	breaker  *action.Breaker
	dryRun   bool
	stepping *Stepping // performs the actions, unless it is nil
	log      *slog.Logger

	mu sync.Mutex // guards policies; a leaf
	// by handler: those with a spec.access.write
	policies map[string]*atomic.Pointer[action.Policy]
}

func newActing(cluster Cluster, o Options) (*acting, error) {
	writes := action.NewWrites()
	resources := discovery.ToServerResourcesInterfaceWithContext(cluster.Discovery)
	options := action.Options{Logger: o.Logger, Observer: o.Acted, Writes: writes}
	executor, err := action.New(cluster.Config, cluster.HTTP, resources, o.Clock.Now, options)
	if err != nil {
		return nil, err
	}
	return &acting{
		executor: executor, writes: writes,
		breaker: action.NewBreaker(writes, o.Clock.Now, o.Logger),
		dryRun:  o.DryRun, stepping: o.Stepping, log: o.Logger,
		policies: make(map[string]*atomic.Pointer[action.Policy]),
	}, nil
}

// longPrune is how many deletions make a prune that takes more than a moment.
const longPrune = 100

// pruning says how far a long prune of a rule is, or returns "".
func (a *acting) pruning(rule string) string {
	if done, of := a.executor.Pruning(rule); of > longPrune {
		return fmt.Sprintf("prunes: %d of %d objects", done, of)
	}
	return ""
}

// actor implements dispatch.Actor for one handler, or for the rules' own actions.
type actor struct {
	*acting
	handler string // empty if rules act themselves
	rule    func(name string) *live.Rule
	check   func(by action.By, ev *handler.Event, actions []handler.Action) error
}

// of returns the actor of a handler. If the handler lacks a permission, the error names the
// manifest line that would grant it.
func (a *acting) of(h config.Handler, named func(string) *live.Rule) *actor {
	policy := new(atomic.Pointer[action.Policy])
	policy.Store(policyOf(h))
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.policies, h.Name)
	if len(h.Write) > 0 {
		a.policies[h.Name] = policy
	}
	check := func(by action.By, ev *handler.Event, actions []handler.Action) error {
		return a.executor.Check(*policy.Load(), by, ev, actions)
	}
	return &actor{acting: a, handler: h.Name, rule: named, check: check}
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

// Allow applies a new manifest h of a handler of the plan: the handler may change in the cluster
// what h.Write grants. Until done is called, the old permissions hold as well. done(true) keeps the
// new ones alone, done(false) the old ones alone.
//
// From now on, no answer is recorded that may hold text of a secret which the handler may read by
// h.Read. Only one goroutine at a time may call Allow for one handler. A handler that had no Write
// when the engine was made cannot get one: Allow then changes no permission.
func (e *Engine) Allow(h config.Handler) (done func(stands bool)) {
	e.work().noteSecrets([]config.Handler{h})
	for _, r := range e.work().rules { // the old manifest or process makes nothing less secret
		if r.Handler == h.Name && e.work().seesSecrets(r.Rule, h) {
			r.Preparer.Confidential.Store(true)
		}
	}
	e.acting.mu.Lock()
	policy := e.acting.policies[h.Name]
	e.acting.mu.Unlock()
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

// ofRules returns the actor of rules' own actions. It allows what the rules say now, because
// actions recorded before a restart may come from older rules.
func (a *acting) ofRules(named func(string) *live.Rule) *actor {
	check := func(by action.By, _ *handler.Event, actions []handler.Action) error {
		r := named(by.Rule)
		for _, one := range actions {
			if action.IsBreak(one) {
				continue
			}
			if r == nil || !r.AsksFor(one) {
				resource := object.ResourceName(schema.GroupVersionResource(one.Resource))
				return handler.Reject(fmt.Errorf(
					"rule %s does not ask for %s of %s", by.Rule, one.Verb, resource))
			}
		}
		return action.ValidateOwn(actions)
	}
	return &actor{acting: a, rule: named, check: check}
}

func (a *actor) by(ev *handler.Event) action.By {
	r := a.rule(ev.Rule)
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
	if a.stepping != nil {
		return a.stepping.Perform(a.by(ev), ev, actions)
	}
	if a.dryRun {
		by := a.by(ev)
		a.executor.Preview(ctx, by, ev, actions, func(p action.Preview) { a.preview(by, ev, p) })
		return nil
	}
	err := a.executor.Do(ctx, a.by(ev), ev, actions)
	if err != nil && a.handler == "" && !action.Quotes(err) {
		err = dispatch.Plain(err)
	}
	if errors.Is(err, action.ErrConflict) {
		err = fmt.Errorf("%w: %w", dispatch.ErrStale, err)
	}
	return err
}

// DoSeen implements dispatch.Witness.
func (a *actor) DoSeen(
	ctx context.Context, ev *handler.Event, actions []handler.Action,
) (trail.Verdict, error) {
	r := a.rule(ev.Rule)
	if r == nil || a.handler != "" || a.dryRun || a.stepping != nil {
		return 0, a.Do(ctx, ev, actions)
	}
	of := r.Trails.Acted
	of.Begin(ev.ID)
	err := a.Do(ctx, ev, actions)
	return of.End(ev.ID), err
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
	a.log.Log(context.Background(), level, "would act", attrs...)
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

// own implements dispatch.Own for one rule.
type own struct {
	writes   *action.Writes
	resource schema.GroupVersionResource
	rule     string
	former   string // the name that it had, or empty
}

// Mine implements dispatch.Own.
func (o own) Mine(key delta.Key, version string) bool {
	return o.writes.Made(o.resource, key, o.rule, version) ||
		o.former != "" && o.writes.Made(o.resource, key, o.former, version)
}

// Begun implements dispatch.Own.
func (o own) Begun() uint64 { return o.writes.Begun() }

// Writing implements dispatch.Own.
func (o own) Writing(key delta.Key, first uint64) bool {
	return o.writes.Writing(o.resource, key, o.rule, first) ||
		o.former != "" && o.writes.Writing(o.resource, key, o.former, first)
}
