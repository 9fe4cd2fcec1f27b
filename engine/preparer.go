package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/utils/clock"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/handler"
)

var errNotSynced = fmt.Errorf("the source has not synced: %w", dispatch.ErrNotYet)

// preparer completes the events of a rule from the caches when they are delivered. It implements
// dispatch.Preparer, and knows nothing of how changes come in. It is safe for concurrent use.
type preparer struct {
	*prepare.Recipe
	rule     *plan.Rule
	clock    clock.PassiveClock
	view     *source.Source   // the rule's own source
	others   []*source.Source // sources that its expressions look into
	failures *failures
	trails   trails
	counters []*metric
	selected atomic.Uint64 // undecided drafts that the rule turned out to select
	// exists reports whether the cluster has an object of the rule's source.
	exists  func(context.Context, delta.Key) (bool, error)
	pruning *pruning // that of the rule; nil if it does not prune
	// mayAct says that the rule changes the cluster: it has actions, or its handler has access.write.
	mayAct bool

	// confidential means that the handler sees text of Secrets, and may quote it. It never becomes
	// false again.
	confidential atomic.Bool
}

var _ dispatch.Preparer = (*preparer)(nil)

// newPreparer returns the preparer of a rule whose events h handles.
func (b *builder) newPreparer(
	r *plan.Rule, h config.Handler, failures *failures, trails trails,
) *preparer {
	e, own := b.Engine, b.sources[r.Source].view
	p := &preparer{
		Recipe: prepare.New(r, func(name string) prepare.Source {
			if name == r.Source.Name {
				return own
			}
			return b.next.source(name).view
		}),
		rule: r, clock: e.clock, view: own, failures: failures, trails: trails,
		mayAct: r.Actions != nil || len(h.Write) > 0,
	}
	for _, s := range r.LooksInto {
		p.others = append(p.others, b.sources[s].view)
	}
	p.confidential.Store(b.next.seesSecrets(r, h))
	p.exists = func(ctx context.Context, key delta.Key) (bool, error) {
		return e.acting.executor.Exists(ctx, r.Source.Resource, key)
	}
	return p
}

// seesSecrets reports whether text of a Secret may appear in h's answers to events of the rule, or
// in its reasons.
func (w *work) seesSecrets(r *plan.Rule, h config.Handler) bool {
	return isOfSecrets(r.Source) || slices.ContainsFunc(r.LooksInto, isOfSecrets) || w.readsSecrets(h)
}

func isOfSecrets(s *plan.Source) bool { return s.Resource == object.Secrets }

// readsSecrets reports whether h may read a source of Secrets.
func (w *work) readsSecrets(h config.Handler) bool {
	return slices.ContainsFunc(h.Read, func(name config.Text) bool {
		return slices.ContainsFunc(w.sources, func(s *runningSource) bool {
			return s.Name == name.String() && isOfSecrets(s.Source)
		})
	})
}

// noteSecrets notes which handlers may see text of a Secret from now on. Everything that such a
// handler says may quote it, also about an event of another rule.
func (w *work) noteSecrets(handlers []config.Handler) {
	for _, h := range handlers {
		sees := w.readsSecrets(h) || slices.ContainsFunc(w.rules, func(r *runningRule) bool {
			return r.Handler == h.Name && w.seesSecrets(r.Rule, h)
		})
		if d := w.dispatcher(h.Name); d != nil && sees {
			d.hasSecrets.Store(true)
		}
	}
}

// SeesSecrets reports whether a handler may have seen text of a Secret since it runs. It returns
// true for a handler that the plan no longer has, because nobody knows.
func (e *Engine) SeesSecrets(h Handler) bool {
	for _, d := range e.work().dispatchers {
		if d.handler == h {
			return d.hasSecrets.Load()
		}
	}
	return true
}

// IsConfidential reports whether events of a rule, and reasons about them, may quote a Secret.
func (e *Engine) IsConfidential(rule string) bool {
	r := e.rule(rule)
	return r == nil || r.preparer.IsConfidential()
}

// IsConfidential implements dispatch.Preparer.
func (p *preparer) IsConfidential() bool { return p.confidential.Load() }

// Prepare implements dispatch.Preparer.
func (p *preparer) Prepare(ctx context.Context, d delivery.Draft) (delivery.Prepared, error) {
	if p.pruning != nil && p.pruning.rule.IsOrphaned(d.Delta) {
		switch is, err := p.exists(ctx, d.Delta.Key()); {
		case is, action.IsForbidden(err): // the rule's orphans look again later
			return delivery.Prepared{Nothing: true}, nil
		case err != nil:
			return delivery.Prepared{}, err
		}
	}
	if p.pruning != nil && p.pruning.rule.IsLate(d.Delta) {
		return p.pruning.spared.Prepare(ctx, p.pruning.rule, d.Delta)
	}
	now := p.clock.Now()
	r := p.Recipe.Prepare(d, now)
	if d.Undecided {
		p.trails.noteDecided(d.Delta, r.Selected, errors.Join(r.Failures...), now)
	}
	add := p.failures.addOn
	if r.Err != nil {
		add = p.failures.addSeen
	}
	for _, err := range r.Failures {
		add(err, d.Delta.Object)
	}
	if r.Selected {
		p.selected.Add(1)
		counted(p.counters, r.Samples, d.Delta.Key())
	}
	if r.PruneBy != "" && p.pruning.spared.Spares(p.pruning.rule, r.Delta) {
		r.PruneBy = ""
	}
	r.Actions, r.OnlyPrunes = p.inOrder(r), len(r.Steps) == 0
	return r.Prepared, r.Err
}

// inOrder returns the rule's own actions as they are performed: its steps, then what it prunes, and
// last the Events, which report what was done.
func (p *preparer) inOrder(r prepare.Result) []handler.Action {
	var steps, reports []action.Step
	for _, step := range r.Steps {
		if step.Actions[0].Verb == handler.ActionEvent {
			reports = append(reports, action.Step(step))
		} else {
			steps = append(steps, action.Step(step))
		}
	}
	if r.PruneBy != "" {
		for _, resource := range p.rule.Prune {
			steps = append(steps, action.PruneStep(resource, r.PruneBy))
		}
	}
	return action.Join(append(steps, reports...))
}

// payload makes the payload of a change from the caches as they are now.
func (p *preparer) payload(d delta.Delta) json.RawMessage {
	return p.Recipe.Payload(d, p.clock.Now(), p.failures.of(d.Key()))
}

// refill fills a change of a Secret from the cache.
func (p *preparer) refill(d delta.Delta) (delta.Delta, json.RawMessage) {
	return p.Recipe.Refill(d, p.clock.Now(), p.failures.of(d.Key()))
}

// isFresh reports whether deliveries of the key may be made from the caches. The rule must not wait
// for the sources that it looks into. The rule's own source must have synced, or be known to be not
// served or forbidden; for Secrets it must have synced.
func (p *preparer) isFresh(key delta.Key) bool {
	if len(p.awaited()) > 0 {
		return false
	}
	for _, i := range p.view.Informers() {
		of := i.Selection().Namespace
		isOfAnother := of != "" && of != key.Namespace
		isFresh := i.HasSynced() || !p.IsSecret() && i.IsSettled()
		if !isOfAnother && !isFresh {
			return false
		}
	}
	return true
}

// awaited returns the sources for which the rule waits because it looks into them: those that have
// not settled. A rule that may act waits until they have synced. Otherwise its expressions would
// find nothing there, and it would act on that: a nil in a merge patch removes a field.
func (p *preparer) awaited() (sources []*source.Source) {
	for _, s := range p.others {
		if slices.ContainsFunc(s.Informers(), p.awaits) {
			sources = append(sources, s)
		}
	}
	return sources
}

// awaits reports whether the rule waits for an informer of a source that it looks into.
func (p *preparer) awaits(i *source.Informer) bool {
	if p.mayAct {
		return !i.HasRead()
	}
	return isUnsettled(i)
}

// wait waits until the rule awaits none of the informers any more. It returns false if ctx ends
// before that.
func (p *preparer) wait(ctx context.Context, on []*source.Informer) bool {
	if p.mayAct {
		return source.WaitUntilRead(ctx, on...)
	}
	return source.WaitUntilSettled(ctx, on...)
}
