package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
	"github.com/informd/informd/engine/running"
)

// Reloaded says what a Reload has changed, by name.
type Reloaded struct {
	// Rules, without those for which only the handler has changed.
	Added, Changed, Gone []string
	Renamed              []Renamed
	AppliesLater         []string // of Changed: those that receive nothing about objects as they are
	Leaving              []string // of Gone: those that prune, so that what they have applied stays
	Dropped              int      // events that waited for rules that are gone
	Metrics              running.MetricChanges
}

// Renamed is a rule that has another name than before, and what it had.
type Renamed struct{ Name, Former string }

// ErrNotRunning is the error of a Reload before Run.
var ErrNotRunning = errors.New("informd has not begun to follow the cluster: try again later")

// Reload makes the engine run another plan, in place of the one that it runs. It means what a
// restart with that plan means to each rule, but nothing else is touched: informers that stay do
// not list, rules that stay go on with their queues, timers and deliveries in flight, and handlers
// whose manifest and Handler stay are not restarted. A table in docs/reference/configuration.md
// shows what a rule receives after its manifest has changed.
//
// handlers has one Handler for each handler of the plan. If it is another one than before, its
// rules' deliveries go to it from now on. The one before finishes what is in flight: the caller
// calls ended, which returns when that is over.
//
// While Run stops, and afterwards, the error is ErrStopping.
//
// Reload waits until the informers of changed rules have caught up, and until an earlier Reload is
// through. If it returns an error, nothing has changed. One Reload runs at a time; more wait.
func (e *Engine) Reload(
	ctx context.Context, p *plan.Plan, handlers map[string]live.Handler,
) (done Reloaded, ended func(), err error) {
	if e.phase.Stopping.Load() { // which is known before the deliveries in flight have ended
		return Reloaded{}, nil, admin.ErrStopping
	}
	e.reloading.Lock()
	defer e.reloading.Unlock()
	if err := e.tasks.check(); err != nil {
		return Reloaded{}, nil, err
	}
	ctx, release := e.tasks.within(ctx)
	defer release()
	before := e.work()
	if err := before.AwaitFollowing(ctx); err != nil {
		return Reloaded{}, nil, err
	}
	if err := before.Widen(ctx, p); err != nil {
		return Reloaded{}, nil, err
	}
	next, err := e.parts.Build(p, handlers, before)
	if err != nil {
		return Reloaded{}, nil, err
	}
	r := &reload{Engine: e, before: before, next: next}
	if err := r.prepare(ctx); err != nil {
		e.parts.Abandon(next)
		return Reloaded{}, nil, err
	}
	r.done.Metrics = before.MetricChanges(p)
	r.carryOut()
	return r.done, r.ended, nil
}

// reload is the change from one work to the next.
type reload struct {
	*Engine
	before, next *running.Work
	done         Reloaded

	gone    []*live.Rule       // of before
	stopped []*live.Dispatcher // of before
	dropped []*intake.Intake   // of before
}

// prepare keeps the intakes that stay as they are, waits until the informers of changed rules have
// caught up, and finds what rules have inside that leave an informer.
func (r *reload) prepare(ctx context.Context) error {
	for n, in := range r.next.Intakes {
		switch {
		case in.Replaces() == nil:
		case in.IsSame():
			r.next.Intakes[n] = in.Replaces()
		default:
			if err := in.AwaitBefore(ctx); err != nil {
				return err
			}
		}
	}
	for _, old := range r.before.Rules {
		is := r.next.Successor(old)
		switch {
		case is != nil && is.Name != old.Name:
			r.done.Renamed = append(r.done.Renamed, Renamed{Name: is.Name, Former: old.Name})
			if r.before.AppliesLater(old, is.Rule) {
				r.done.AppliesLater = append(r.done.AppliesLater, is.Name)
			}
		case is == nil:
			r.gone = append(r.gone, old)
			r.done.Gone = append(r.done.Gone, old.Name)
			if old.Prune != nil {
				r.done.Leaving = append(r.done.Leaving, old.Name)
			}
		case is == old:
		case is.Before == nil:
			r.gone = append(r.gone, old)
			r.done.Changed = append(r.done.Changed, old.Name)
		case r.before.Runs(old, is.Rule): // with another handler
		default:
			r.done.Changed = append(r.done.Changed, old.Name)
			if r.before.AppliesLater(old, is.Rule) {
				r.done.AppliesLater = append(r.done.AppliesLater, old.Name)
			}
		}
	}
	for _, rule := range r.next.Rules {
		if r.before.Predecessor(rule.Rule) == nil {
			r.done.Added = append(r.done.Added, rule.Name)
		}
	}
	for _, d := range r.before.Dispatchers {
		if !slices.Contains(r.next.Dispatchers, d) {
			r.stopped = append(r.stopped, d)
		}
	}
	for _, old := range r.before.Intakes {
		stays := func(in *intake.Intake) bool { return in.Informer == old.Informer }
		if !slices.ContainsFunc(r.next.Intakes, stays) {
			r.dropped = append(r.dropped, old)
		}
	}
	for _, in := range r.next.Intakes {
		if old := in.Replaces(); old != nil {
			old.BeginLeave(in, r.next.Successor)
		}
	}
	for _, old := range r.dropped {
		old.BeginLeave(nil, r.next.Successor)
	}
	r.before.Intakes.PrepareToLeave(ctx)
	return nil
}

// carryOut makes the engine run the next work. Nothing in it can fail.
func (r *reload) carryOut() {
	r.takeOccasions()
	defer r.present.Prepare(r.next)()
	for _, rule := range r.gone {
		r.drop(rule)
	}
	waiting := r.wait()
	for _, rule := range r.next.Rules {
		switch {
		case rule.Before != nil:
			r.succeed(rule)
		case !slices.Contains(r.before.Rules, rule):
			r.introduce(rule)
		}
	}
	moving := running.MoveGauges(r.next, r.dropped)
	for _, w := range r.before.Waiting {
		if w.GoesOn(r.next.Rules) {
			r.next.Waiting = append(r.next.Waiting, w)
			continue
		}
		w.End()
	}
	r.next.Waiting = append(r.next.Waiting, waiting...)
	r.present.Take(r.next)
	for _, d := range r.next.Dispatchers {
		if d.End == nil {
			d.End = r.tasks.start(d.Deliver)
		}
	}
	left := intake.NewDepartures(r.present.Intakes)
	for _, in := range r.next.Intakes {
		if in.Replaces() != nil {
			in.Succeed(r.next.Successor, left)
		}
	}
	for _, in := range r.dropped {
		in.Drop(r.next.Successor, left)
	}
	left.HandOver()
	for _, in := range r.next.Intakes {
		if in.IsNew() {
			in.Begin(r.next.Intakes)
		}
	}
	r.informers.Start()
	for _, w := range waiting {
		w.End = r.tasks.start(w.Run)
	}
	for _, in := range r.dropped {
		r.informers.Stop(in.Informer)
	}
	moving.End()
	end := r.Engine.begin()
	for _, in := range r.dropped {
		if r.store != nil && !left.IsOwed(in.ID) {
			r.store.DropInformer(in.ID)
		}
	}
	end()
	for _, rule := range r.next.Rules {
		rule.Pruning.Start(r.tasks.start)
		rule.Before = nil // and with it all before that
	}
	r.before, r.next = nil, nil
}

// ended ends the deliveries to handlers that are gone or replaced, and returns when what was in
// flight has ended.
func (r *reload) ended() {
	for _, d := range r.stopped {
		d.End()
	}
}

// drop ends a rule that is gone, and drops what waits for it.
func (r *reload) drop(rule *live.Rule) {
	rule.Pruning.Stop()
	waiting := rule.Undelivered()
	end := r.Engine.begin()
	rule.Memory.End()
	rule.Tally.End()
	rule.Lane.Close()
	if r.store != nil {
		live.DropRule(r.store, rule.ID)
	}
	r.parts.Heirs.Add(r.parts.Targets.DropRule(rule.ID))
	end()
	r.done.Dropped += waiting
	isReplaced := r.next.Successor(rule) != nil
	r.Engine.logGone(rule.Name, isReplaced, waiting)
	if rule.Prune != nil && !isReplaced {
		r.Engine.log.Warn(preview.Left, "rule", rule.Name)
	}
}

// logGone logs that informd has no rule of that name any more, or one about another resource.
func (e *Engine) logGone(rule string, isReplaced bool, waiting int) {
	reason := "the rule is gone"
	if isReplaced {
		reason = "the rule is about another resource now"
	}
	if waiting == 0 {
		e.log.Info(reason, "rule", rule)
		return
	}
	e.log.Warn(reason+": informd dropped its waiting deliveries", "rule", rule, "waiting", waiting)
}

// wait has the rules that come or change wait for sources that they look into: see
// live.Preparer.Awaited.
func (r *reload) wait() (all []*intake.Waiting) {
	for _, in := range r.next.Intakes {
		all = append(all, intake.WaitForOthers(in, func(rule *live.Rule) bool {
			return !slices.Contains(r.before.Rules, rule) && len(rule.Preparer.Awaited()) > 0
		})...)
	}
	return all
}

// introduce makes a new rule known to the state.
func (r *reload) introduce(rule *live.Rule) {
	defer r.Engine.begin()()
	if r.store != nil { // the records under its name are gone
		rule.OpenLanes()
	}
	rule.Memory.NoteLoaded()
	rule.Memory.NoteOccasions()
	r.note(rule)
}

// succeed makes a rule take the place of the one before it.
func (r *reload) succeed(rule *live.Rule) {
	old := rule.Before
	old.Pruning.Stop()
	rule.Options.Renamed = func(former []delivery.Former) {
		rule.Memory.Rename(rule.Name, former)
		r.dead.Rename(old.Name, rule.Name)
	}
	rule.Lane = rule.Dispatcher.Succeed(old.Lane, rule.Name, rule.Options, rule.IsHeld())
	rule.Memory.Follow(rule.Lane)
	rule.Matches.Store(old.Matches.Load())
	rule.Preparer.Selected.Store(old.Preparer.Selected.Load())
	rule.Memory.Become(rule.Membership())
	defer r.Engine.begin()()
	if spared := old.Pruning.Spares(); rule.Pruning != nil {
		spared.Succeed(rule.Pruning.Rule, rule.Pruning.Spared)
	} else {
		spared.Succeed(nil, nil)
	}
	if rule.Tally != old.Tally {
		old.Tally.Forget()
	}
	r.succeedTargets(rule)
	r.note(rule)
}

// note records what the state notes of a rule when it begins. It is called within a cut.
func (r *reload) note(rule *live.Rule) {
	if r.store == nil {
		return
	}
	if rule.Before == nil || rule.Tally != rule.Before.Tally {
		rule.Tally.Begin()
	}
	rule.NoteGathers()
}
