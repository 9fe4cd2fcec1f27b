package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
)

// Reloaded says what a Reload has changed, by name.
type Reloaded struct {
	// Rules, without those for which only the handler has changed.
	Added, Changed, Gone []string
	Renamed              []Renamed
	Untold               []string // of Changed: those that receive nothing about objects as they are
	Leaving              []string // of Gone: those that prune, so that what they have applied stays
	Dropped              int      // events that waited for rules that are gone
	Metrics              MetricChanges
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
	if e.stopping.Load() { // which is known before the deliveries in flight have ended
		return Reloaded{}, nil, ErrStopping
	}
	e.reloading.Lock()
	defer e.reloading.Unlock()
	if err := e.tasks.check(); err != nil {
		return Reloaded{}, nil, err
	}
	ctx, release := e.tasks.within(ctx)
	defer release()
	before := e.work()
	if err := before.awaitFollowing(ctx); err != nil {
		return Reloaded{}, nil, err
	}
	if err := before.widen(ctx, p); err != nil {
		return Reloaded{}, nil, err
	}
	next, err := e.build(p, handlers, before)
	if err != nil {
		return Reloaded{}, nil, err
	}
	r := &reload{Engine: e, before: before, next: next}
	if err := r.prepare(ctx); err != nil {
		e.abandon(next)
		return Reloaded{}, nil, err
	}
	r.done.Metrics = before.metricChanges(p)
	r.carryOut()
	return r.done, r.ended, nil
}

// abandon stops the informers of a work that is not taken up.
func (e *Engine) abandon(w *work) {
	for _, in := range w.intakes {
		if in.isNew {
			e.informers.Stop(in.informer)
		}
	}
}

// reload is the change from one work to the next.
type reload struct {
	*Engine
	before, next *work
	done         Reloaded

	gone    []*live.Rule       // of before
	stopped []*live.Dispatcher // of before
	dropped []*intake          // of before

	departures []departure
}

// awaitFollowing returns when all rules that began to catch up have done so.
func (w *work) awaitFollowing(ctx context.Context) error {
	for _, in := range w.intakes {
		for in.hasCaughtUp() && in.catchesUp() {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("rules still learn what has changed for them before: %w", context.Cause(ctx))
			}
		}
	}
	return nil
}

// catchesUp reports whether rules catch up, a turn at a time. It may be called at any time.
func (in *intake) catchesUp() (is bool) {
	in.informer.Visit(func(iter.Seq[*object.Object]) { is = len(in.latest().learns.catchUps) > 0 })
	return is
}

// prepare keeps the intakes that stay as they are, and waits until the informers of changed rules
// have caught up.
func (r *reload) prepare(ctx context.Context) error {
	for n, in := range r.next.intakes {
		switch {
		case in.before == nil:
		case slices.Equal(in.rules, in.before.rules) && in.gauges.IsSame(in.before.gauges):
			r.next.intakes[n] = in.before
		default:
			for _, rule := range in.rules {
				if rule.Before == nil || !slices.Contains(in.before.rules, rule.Before) {
					continue
				}
				if err := in.before.awaitCaughtUp(ctx); err != nil {
					return fmt.Errorf("rule %s: what its change means cannot be told yet: %w", rule.Name, err)
				}
			}
		}
	}
	for _, old := range r.before.rules {
		is := r.next.successor(old)
		switch {
		case is != nil && is.Name != old.Name:
			r.done.Renamed = append(r.done.Renamed, Renamed{Name: is.Name, Former: old.Name})
			if r.before.isUntold(old, is.Rule) {
				r.done.Untold = append(r.done.Untold, is.Name)
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
		case r.before.runs(old, is.Rule): // with another handler
		default:
			r.done.Changed = append(r.done.Changed, old.Name)
			if r.before.isUntold(old, is.Rule) {
				r.done.Untold = append(r.done.Untold, old.Name)
			}
		}
	}
	for _, rule := range r.next.rules {
		if r.before.became(rule.Rule) == nil {
			r.done.Added = append(r.done.Added, rule.Name)
		}
	}
	for _, d := range r.before.dispatchers {
		if !slices.Contains(r.next.dispatchers, d) {
			r.stopped = append(r.stopped, d)
		}
	}
	for _, old := range r.before.intakes {
		stays := func(in *intake) bool { return in.informer == old.informer }
		if !slices.ContainsFunc(r.next.intakes, stays) {
			r.dropped = append(r.dropped, old)
		}
	}
	return nil
}

// awaitCaughtUp returns when the intake's informer has caught up.
func (in *intake) awaitCaughtUp(ctx context.Context) error {
	for {
		if in.hasCaughtUp() {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			state, reason := in.informer.State()
			return fmt.Errorf("%v is %v %s: %w", in.informer.Selection(), state, reason, context.Cause(ctx))
		}
	}
}

// hasCaughtUp reports whether the intake's informer has caught up. It may be called at any time.
func (in *intake) hasCaughtUp() (is bool) {
	in.informer.Visit(func(iter.Seq[*object.Object]) { is = in.latest().learns.caughtUp })
	return is
}

// carryOut makes the engine run the next work. Nothing in it can fail.
func (r *reload) carryOut() {
	r.takeOccasions()
	r.coming.Store(r.next)
	defer r.coming.Store(nil)
	for _, rule := range r.gone {
		r.drop(rule)
	}
	waiting := r.wait()
	for _, rule := range r.next.rules {
		switch {
		case rule.Before != nil:
			r.succeed(rule)
		case !slices.Contains(r.before.rules, rule):
			r.introduce(rule)
		}
	}
	moving := r.moveGauges()
	for _, w := range r.before.waiting {
		if w.waits(r.next) {
			r.next.waiting = append(r.next.waiting, w)
			continue
		}
		w.end()
	}
	r.next.waiting = append(r.next.waiting, waiting...)
	r.present.Store(r.next)
	for _, d := range r.next.dispatchers {
		if d.End == nil {
			d.End = r.tasks.start(d.Deliver)
		}
	}
	for _, in := range r.next.intakes {
		if in.before != nil {
			r.replace(in)
		}
	}
	for _, in := range r.dropped {
		in.informer.Replace(nil, in.planned.View, func(known iter.Seq[*object.Object]) {
			in.catchUpAll(known, slices.Clone(in.learns.catchUps)...)
			r.leave(in, nil, known)
			in.isDropped = true
		})
	}
	owed := r.part()
	for _, in := range r.next.intakes {
		if in.isNew {
			r.begin(in)
		}
	}
	r.informers.Start()
	for _, w := range waiting {
		w.end = r.tasks.start(w.run)
	}
	for _, in := range r.dropped {
		in.gauges.End()
		r.informers.Stop(in.informer)
	}
	moving.End()
	end := r.Engine.begin()
	for _, in := range r.dropped {
		if r.store != nil && owed[in.id] == nil {
			r.store.DropInformer(in.id)
		}
	}
	end()
	for _, rule := range r.next.rules {
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
	end()
	r.done.Dropped += waiting
	isReplaced := r.next.successor(rule) != nil
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

// wait has the rules that come or change wait for sources that they look into: see live.Preparer.Awaited.
func (r *reload) wait() (all []*waiting) {
	for _, in := range r.next.intakes {
		all = append(all, in.waitForOthers(func(i int) bool {
			rule := in.rules[i]
			return !slices.Contains(r.before.rules, rule) && len(rule.Preparer.Awaited()) > 0
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
	rule.Memory.Loaded()
	rule.Memory.NoteOccasions()
	r.note(rule)
}

// succeed makes a rule take the place of the one before it.
func (r *reload) succeed(rule *live.Rule) {
	old := rule.Before
	old.Pruning.Stop()
	rule.Options.Renamed = func(former []delivery.Former) {
		rule.Memory.Renamed(rule.Name, former)
		r.dead.Rename(old.Name, rule.Name)
	}
	rule.Lane = rule.To.Succeed(old.Lane, rule.Name, rule.Options, rule.IsHeld())
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

// replace makes an intake take the place of the one before it.
func (r *reload) replace(in *intake) {
	old := in.before
	in.informer.Replace(in, in.planned.View, func(known iter.Seq[*object.Object]) {
		var ends []*catchUp
		for _, u := range old.learns.catchUps {
			if old.learns.caughtUp || !carries(in.rules, old.rules, u) {
				ends = append(ends, u)
			}
		}
		old.catchUpAll(known, ends...)
		r.leave(old, in, known)
		in.takeOver(known)
	}, in.Timetables()...)
	in.Rounds.Begin(old.Rounds)
}

// departure is a rule that no longer sees an informer.
type departure struct {
	rule   *live.Rule // as it is now
	from   *intake
	inside []*object.Object // that the rule had inside
	// partings are those of an earlier reload of which the rule must still learn from the intake;
	// nil if the rule leaves the informer now.
	partings []*parting
}

// leave notes what rules that no longer see the intake's informer have inside. The informer calls
// it between two steps. in is the intake that takes over; nil if the informer is dropped.
func (r *reload) leave(old, in *intake, known iter.Seq[*object.Object]) {
	for j, was := range old.rules {
		is := r.next.successor(was)
		if is == nil || is.Before != was || in != nil && slices.Contains(in.rules, is) {
			continue
		}
		if l := old.learns.left[j]; l != nil && len(l.Objects) > 0 {
			inside := slices.Collect(maps.Values(l.Objects))
			r.departures = append(r.departures, departure{is, old, inside, l.partings})
		}
		if old.learns.isDeaf(j) {
			continue // it has seen nothing
		}
		gone := departure{rule: is, from: old}
		for o := range known {
			var reported evaluate.Change // its failures were reported when it came
			if old.evaluator.IsInside(j, o, &reported) {
				gone.inside = append(gone.inside, o)
			}
			old.evaluator.Forget()
		}
		if len(gone.inside) > 0 {
			r.departures = append(r.departures, gone)
		}
	}
	if in == nil {
		clear(old.learns.unseen) // these rules learn nothing of it once their sources have settled
	}
}

// part has rules learn what became of the objects that they had inside in informers that they no
// longer see: see parting. It returns the informers that stay on disk for that.
func (r *reload) part() (owed map[string]*leftInformer) {
	owed = make(map[string]*leftInformer)
	byIntake := make(map[*intake]map[int]*left)
	for _, d := range r.departures {
		partings := d.partings
		if partings == nil {
			of := owed[d.from.id]
			if of == nil {
				of = &leftInformer{id: d.from.id, engine: r.Engine}
				owed[d.from.id] = of
			}
			of.owed.Add(1)
			partings = []*parting{{rule: d.rule, from: of}}
		}
		for _, o := range d.inside {
			in, i := r.intakeFor(d.rule, delta.KeyOf(o))
			if byIntake[in] == nil {
				byIntake[in] = make(map[int]*left)
			}
			l := byIntake[in][i]
			if l == nil {
				l = newLeft()
				byIntake[in][i] = l
			}
			l.Objects[delta.KeyOf(o)] = o
			for _, p := range partings {
				if !slices.Contains(l.partings, p) {
					l.partings = append(l.partings, p)
					p.owed.Add(1)
				}
			}
		}
		for _, p := range d.partings {
			p.owed.Add(-1) // the intake that owed it until now
		}
	}
	for in, all := range byIntake {
		in.informer.Visit(func(known iter.Seq[*object.Object]) { in.owe(all, known) })
	}
	return owed
}

// owe has rules of the intake learn what became of the objects that they had inside in informers
// that they have left. It is called between two steps.
func (in *intake) owe(all map[int]*left, known iter.Seq[*object.Object]) {
	for i, l := range all {
		if more := in.learns.left[i]; more != nil { // of an earlier reload
			maps.Copy(l.Objects, more.Objects)
			l.partings = append(l.partings, more.partings...)
		}
		in.learns.left[i] = l
	}
	if !in.learns.caughtUp { // they learn at CaughtUp
		for i := range all {
			in.learns.makeLate(i)
		}
		return
	}
	for i := range all {
		if !in.learns.unseen[i] { // otherwise it learns that with the rest
			in.beginDeparting(i, known, false)
		}
	}
}

// begin begins the intake of a new informer.
func (r *reload) begin(in *intake) {
	in.isNew = false
	if in.record != nil { // the records under its id are of an earlier time, and not complete
		end := in.record.begin()
		r.store.DropInformer(in.id)
		in.record = r.newRecord(in.id, in.planned, in.informer)
		for i, rule := range in.rules {
			// otherwise release or CaughtUp records it
			if !in.learns.isDeaf(i) {
				rule.Memory.See(in.id)
			}
		}
		end()
	}
	in.waits.Count()
	in.gauges.Begin()
	in.informer.Consume(in, in.Timetables()...)
	in.Rounds.Begin(nil)
}

// takeOver makes in the intake of its informer, in place of the one before it. The informer calls it
// between two steps.
func (in *intake) takeOver(known iter.Seq[*object.Object]) {
	old := in.before
	in.before, in.present.intake = nil, in
	in.learns.caughtUp = old.learns.caughtUp
	from := make(map[int]int) // rules that go on, by their indexes: from which in old
	var pupils []follow.Pupil
	for i, r := range in.rules {
		j := slices.IndexFunc(old.rules, func(was *live.Rule) bool {
			return was == r || was == r.Before
		})
		isSame := j >= 0 && old.rules[j].Membership() == r.Membership()
		if j >= 0 {
			in.Rounds.Carry(i, old.Rounds, j)
		}
		switch {
		case j >= 0 && (old.rules[j] == r || isSame && !old.learns.unseen[j]):
			from[i] = j
			in.carry(i, old, j)
		case j >= 0 && !old.learns.unseen[j]:
			delete(in.learns.unseen, i) // if it waits for others, it learns nevertheless, undecided
			has := func(o *object.Object) bool {
				defer old.evaluator.Forget()
				var reported evaluate.Change // its failures were reported when it came
				return old.evaluator.IsInside(j, o, &reported)
			}
			pupils = append(pupils, follow.Pupil{Rule: i, Knew: follow.Now{Has: has}})
		case in.learns.unseen[i]: // it learns once the sources that it looks into have settled
		case in.learns.caughtUp:
			pupils = append(pupils, follow.Pupil{Rule: i})
		default:
			in.learns.makeLate(i)
		}
	}
	in.learns.carryResuming(old.learns.resuming, from)
	for _, u := range old.learns.catchUps { // which the informer has not begun
		u.Renumber(func(j int) int { return successor(in.rules, old.rules[j]) })
		in.learns.catchUps = append(in.learns.catchUps, u)
	}
	in.waits.Succeed(&old.waits)
	in.gauges.TakeOver(old.gauges, known, in.learns.caughtUp)
	in.beginCatchUp(pupils, known, nil, false)
}

// carry takes over what old knows of its rule j, which is the rule i of in.
func (in *intake) carry(i int, old *intake, j int) {
	switch {
	case old.learns.unseen[j]:
		in.learns.unseen[i] = true
	default:
		delete(in.learns.unseen, i) // it waits for others, but has seen this informer
	}
	if l := old.learns.left[j]; l != nil {
		in.learns.left[i] = l
	}
	in.waits.Carry(i, &old.waits, j)
}
