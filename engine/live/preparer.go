package live

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/orphans"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/handler"
)

var errNotSynced = fmt.Errorf("the source has not synced: %w", dispatch.ErrNotYet)

// Preparer completes the events of a rule from the caches when they are delivered. It implements
// dispatch.Preparer, and knows nothing of how changes come in. It is safe for concurrent use.
type Preparer struct {
	*prepare.Recipe
	Clock    clock.PassiveClock
	View     *source.Source   // the rule's own source
	Others   []*source.Source // sources that its expressions look into
	Failures *Failures        // the rule's
	Trails   Trails           // the rule's
	Counters []*Metric        // the rule's, in its order
	Selected atomic.Uint64    // undecided drafts that the rule turned out to select
	Pruning  *Pruning         // the rule's; nil if it does not prune
	// MayAct says that the rule changes the cluster: it has actions, or its handler has
	// access.write.
	MayAct bool

	// Confidential reports whether the handler sees text of Secrets, and may quote it.
	Confidential func() bool
}

var _ dispatch.Preparer = (*Preparer)(nil)

// IsConfidential implements dispatch.Preparer.
func (p *Preparer) IsConfidential() bool { return p.Confidential() }

// Prepare implements dispatch.Preparer.
func (p *Preparer) Prepare(ctx context.Context, d delivery.Draft) (delivery.Prepared, error) {
	if p.Pruning != nil && p.Pruning.Rule.IsOrphaned(d.Delta) {
		switch is, err := p.Pruning.Rule.Exists(ctx, p.Rule.Source.Resource, d.Delta.Key()); {
		case is, action.IsForbidden(err): // the rule's orphans look again later
			return delivery.Prepared{Nothing: true}, nil
		case err != nil:
			return delivery.Prepared{}, err
		}
	}
	if p.Pruning != nil && p.Pruning.Rule.IsLate(d.Delta) {
		return p.Pruning.Spared.Prepare(ctx, p.Pruning.Rule, d.Delta)
	}
	now := p.Clock.Now()
	r := p.Recipe.Prepare(d, now)
	if d.Undecided {
		p.Trails.noteDecided(d.Delta, r.Selected, errors.Join(r.Failures...), now)
	}
	add := p.Failures.AddOn
	if r.Err != nil {
		add = p.Failures.AddSeen
	}
	for _, err := range r.Failures {
		add(err, d.Delta.Object)
	}
	if r.Selected {
		p.Selected.Add(1)
		AddSamples(p.Counters, r.Samples, d.Delta.Key())
	}
	if r.PruneBy != "" && p.Pruning.Spared.Spares(p.Pruning.Rule, r.Delta) {
		r.PruneBy = ""
	}
	if p.Rule.Actions != nil {
		r.Acts = p.inOrder(&r)
	}
	return r.Prepared, r.Err
}

// inOrder returns the rule's own actions as they are performed: its steps, then what it prunes, and
// last the Events, which report what was done.
func (p *Preparer) inOrder(r *prepare.Result) *delivery.Acts {
	var pruned []delivery.Piece
	if r.PruneBy != "" {
		pruned = []delivery.Piece{orphans.PruneOf(p.Rule.Prune, r.PruneBy)}
	}
	acts := &delivery.Acts{
		Digest: p.ActsDigest(), Prunes: len(pruned) > 0,
		OnlyPrunes: len(r.Steps) == 0 && r.Walk == nil,
	}
	if r.Walk != nil {
		acts.Make = p.inPieces(r.Walk, pruned, r.Delta.Object)
		return acts
	}
	var reports []delivery.Piece
	for _, step := range r.Steps {
		piece := delivery.Piece{Label: step.Label, Actions: step.Actions}
		if step.Actions[0].Verb == handler.ActionEvent {
			reports = append(reports, piece)
		} else {
			acts.Pieces = append(acts.Pieces, piece)
		}
	}
	acts.Pieces = slices.Concat(acts.Pieces, pruned, reports)
	return acts
}

// inPieces returns Acts.Make for actions that are not kept. o is what the change is about.
func (p *Preparer) inPieces(
	walk prepare.Walk, pruned []delivery.Piece, o *object.Object,
) func(visit func(delivery.Piece) error) error {
	fail := func(err error) { p.Failures.AddSeen(err, o) }
	isReport := func(t *rule.ActionTemplate) bool { return t.Verb == handler.ActionEvent }
	isStep := func(t *rule.ActionTemplate) bool { return !isReport(t) }
	return func(visit func(delivery.Piece) error) error {
		one := func(p rule.Piece) error {
			return visit(delivery.Piece{Label: p.Label, Actions: p.Actions})
		}
		if err := walk(isStep, one, fail); err != nil {
			return err
		}
		for _, p := range pruned {
			if err := visit(p); err != nil {
				return err
			}
		}
		return walk(isReport, one, fail)
	}
}

// ActsDigest identifies what the rule's own actions are made with.
func (p *Preparer) ActsDigest() uint64 {
	return binary.BigEndian.Uint64(p.Rule.EventsDigest[:])
}

// payload makes the payload of a change from the caches as they are now.
func (p *Preparer) payload(d delta.Delta) json.RawMessage {
	return p.Recipe.Payload(d, p.Clock.Now(), p.Failures.of(d.Key()))
}

// refill fills a change of a Secret from the cache.
func (p *Preparer) refill(d delta.Delta) (delta.Delta, json.RawMessage) {
	return p.Recipe.Refill(d, p.Clock.Now(), p.Failures.of(d.Key()))
}

// isFresh reports whether deliveries of the key may be made from the caches. The rule must not wait
// for the sources that it looks into. The rule's own source must have synced, or be known to be not
// served or forbidden; for Secrets it must have synced.
func (p *Preparer) isFresh(key delta.Key) bool {
	if len(p.Awaited()) > 0 {
		return false
	}
	for _, i := range p.View.Informers() {
		of := i.Selection().Namespace
		isOfAnother := of != "" && of != key.Namespace
		isFresh := i.HasSynced() || !p.IsSecret() && i.IsSettled()
		if !isOfAnother && !isFresh {
			return false
		}
	}
	return true
}

// Awaited returns the sources for which the rule waits because it looks into them: those that have
// not settled. A rule that may act waits until they have synced. Otherwise its expressions would
// find nothing there, and it would act on that: a nil in a merge patch removes a field.
func (p *Preparer) Awaited() (sources []*source.Source) {
	for _, s := range p.Others {
		if slices.ContainsFunc(s.Informers(), p.Awaits) {
			sources = append(sources, s)
		}
	}
	return sources
}

// Awaits reports whether the rule waits for an informer of a source that it looks into.
func (p *Preparer) Awaits(i *source.Informer) bool {
	if p.MayAct {
		return !i.HasRead()
	}
	return IsUnsettled(i)
}

// Wait waits until the rule awaits none of the informers any more. It returns false if ctx ends
// before that.
func (p *Preparer) Wait(ctx context.Context, on []*source.Informer) bool {
	if p.MayAct {
		return source.WaitUntilRead(ctx, on...)
	}
	return source.WaitUntilSettled(ctx, on...)
}

// Again returns a letter as it is delivered once more. It remakes what could not be kept over a
// restart. If the rule acts itself, the letter is about the object as it is now. An error says why
// the letter cannot be delivered.
func (p *Preparer) Again(l delivery.Letter) (delivery.Letter, error) {
	isBare := p.IsSecret() && prepare.IsIdentity(l.Delta.Object) // it comes from before a restart
	wasLeftOut := func(payload json.RawMessage) bool {
		return p.Reveals() && bytes.Equal(payload, prepare.Null)
	}
	lacksPayload := wasLeftOut(l.Payload) || slices.ContainsFunc(l.Items, func(i delivery.Item) bool {
		return wasLeftOut(i.Payload)
	})
	hadNone := p.Rule.Payload != nil && l.Payload == nil // it could not be made
	isFresh := p.isFresh(l.Key)
	switch {
	case isBare && !isFresh:
		return l, fmt.Errorf("dead letter %q: the source has not caught up with the server, "+
			"and a secret is delivered as it is now: try again later", l.ID)
	case lacksPayload && !isFresh:
		return l, fmt.Errorf("dead letter %q: the sources have not caught up with the server, "+
			"and nothing was kept of the secrets that rule %q looks up: try again later",
			l.ID, l.Rule)
	case (len(p.Rule.Attached) > 0 || p.Rule.Actions != nil || hadNone) && !isFresh:
		return l, fmt.Errorf("dead letter %q: the sources have not caught up with the server, "+
			"and rule %q needs them for the event or to act: try again later", l.ID, l.Rule)
	}
	if p.Rule.Actions != nil {
		now, ok := p.AsItIs(l.Delta, p.Clock.Now(), p.Failures.of(l.Key))
		if !ok {
			return l, fmt.Errorf("dead letter %q: rule %q does nothing for the object "+
				"as it is now: drop it", l.ID, l.Rule)
		}
		l.Delta, l.Payload = now.Delta, now.Payload
	}
	var failure error
	note := func(err error) { failure = errors.Join(failure, err) }
	switch now := p.Clock.Now(); {
	case p.IsSecret() && prepare.IsIdentity(l.Delta.Object):
		l.Delta, l.Payload = p.Recipe.Refill(l.Delta, now, note)
	case wasLeftOut(l.Payload) || p.Rule.Payload != nil && l.Payload == nil:
		l.Payload = p.Recipe.Payload(l.Delta, now, note)
	}
	l.Items = slices.Clone(l.Items)
	for i := range l.Items {
		switch item, now := &l.Items[i], p.Clock.Now(); {
		case p.IsSecret() && prepare.IsIdentity(item.Delta.Object):
			item.Delta, item.Payload = p.Recipe.Refill(item.Delta, now, note)
		case wasLeftOut(item.Payload):
			item.Payload = p.Recipe.Payload(item.Delta, now, note)
		}
	}
	if failure != nil {
		return l, fmt.Errorf("dead letter %q: rule %q cannot make its payload: %w: "+
			"mend the rule, or drop the letter", l.ID, l.Rule, failure)
	}
	return l, nil
}
