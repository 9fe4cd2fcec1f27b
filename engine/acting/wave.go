package acting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
)

// maxAtOnce is how many requests a wave has under way.
const maxAtOnce = 8

// The subresources of targets that are no objects: an Event about an object, and the deletions of a
// prune, which go by the source object.
const (
	eventTarget = "event"
	pruneTarget = "prune"
)

// wave performs a rule's own actions for one change: it is one attempt of their delivery. First it
// walks over all of them and asks the table for their targets. So an expression that fails, or an
// action that the rule does not have any more, performs nothing. Then it walks again and performs
// what the table says. What is done for this event is skipped, and what is backing off passed over.
// In the place of the prune it deletes what the source object asks for no more.
//
// Requests of a piece go out together, but for those of the same target, which keep their order. A
// step begins once everything before it is done. A prune also does if only objects of others are in
// its way: what the rule applies is known all the same.
type wave struct {
	*actor
	dispatch.Performance
	rule  *live.Rule
	by    action.By
	asker targets.Asker
	table *targets.Wave
	seq   sequence

	total int // actions in all, without prunes by labels
	prune prune
	guard guard

	isVerified bool // this informd led when the first request was about to be made

	isBegun bool   // a step has
	label   string // of the step
	number  int    // of the last action, from 1
	// hasSkipped says that an earlier attempt has done something
	hasSkipped bool
	group      sync.WaitGroup
	room       chan struct{} // has a message for each request under way

	mu     sync.Mutex // guards failed while requests are under way
	failed failures
	due    time.Time // when the first target that waits is tried again; zero if that is not known
}

// prune is what a wave knows of what its rule prunes.
type prune struct {
	resources []handler.Resource
	dropped   []targets.Claim             // what the source object asks for no more
	applied   map[targets.Target]struct{} // what it asks for, in no version; nil if the rule does not prune
	isBegun   bool                        // the wave has got to the prune
	did       func()                      // is called after each deletion
}

// sequence makes the requests of one wave. *action.Sequence implements it.
type sequence interface {
	One(ctx context.Context, r action.Request) (action.Ended, error)
	BeginPrune(n int) (did, end func())
	Prune(
		ctx context.Context, resource schema.GroupVersionResource, labelSelector string,
		keeps func(resource schema.GroupVersionResource, key delta.Key) bool,
	) (action.Ended, error)
}

// Perform implements dispatch.Actor.
func (a *actor) Perform(ctx context.Context, p dispatch.Performance) (trail.Verdict, error) {
	if p.Stop() { // another rule may have the name now
		return 0, dispatch.ErrStopped
	}
	ev := p.Event
	r := a.options.Rule(ev.Rule)
	if c, ok := p.Account.(account); ok {
		r = c.rule
		a = &actor{Acting: a.Acting, handler: a.handler, check: func(
			by action.By, _ *handler.Event, actions []handler.Action,
		) error {
			return allowed(r, by, actions)
		}}
	}
	by := a.byRule(r, ev)
	if a.options.DryRun {
		return 0, a.rehearse(ctx, by, p)
	}
	if r == nil || handler.Resource(r.Source.Resource) != ev.Resource {
		return 0, handler.Reject(fmt.Errorf("there is no rule %s of %s any more", ev.Rule,
			object.ResourceName(schema.GroupVersionResource(ev.Resource))))
	}
	asker := targets.Asker{Rule: r.ID, Key: p.Key}
	w := &wave{
		actor: a, Performance: p, rule: r, by: by, asker: asker,
		table: a.options.Targets.Begin(asker, eventOf(p)),
		room:  make(chan struct{}, a.options.atOnce()),
	}
	w.guard = guard{&a.options, r, by, asker, a.exists, w.Stop}
	if p.Acts.Prunes {
		w.prune.applied = make(map[targets.Target]struct{})
	}
	of := r.Trails.Acted
	of.Begin(ev.ID)
	err := w.run(ctx)
	did := of.End(ev.ID)
	if i, ok := w.seq.(*instead); ok {
		i.end()
		return 0, err
	}
	if w.hasSkipped || ev.Attempt > 1 && w.total > live.MaxActed {
		did = trail.Acted // what earlier attempts have done may be forgotten
	}
	return did, err
}

// eventOf identifies what the wave is about. What is done for one event is done again for another,
// and after a resync.
func eventOf(p dispatch.Performance) uint64 {
	id := p.Event.ID
	if p.Resync != 0 {
		id += "+" + strconv.FormatInt(p.Resync, 10)
	}
	return targets.EventOf(id, p.Acts.Digest)
}

// collect returns all actions at once.
func (a *actor) collect(
	by action.By, p dispatch.Performance,
) (all []handler.Action, err error) {
	var refused error
	err = p.Acts.Walk(func(piece delivery.Piece) error {
		all = append(all, piece.Actions...)
		refused = a.check(by, p.Event, piece.Actions)
		return refused
	})
	return all, cmp.Or(refused, plain(err))
}

// rehearse logs what the actions would do.
func (a *actor) rehearse(ctx context.Context, by action.By, p dispatch.Performance) error {
	all, err := a.collect(by, p)
	if err == nil {
		a.Executor.Preview(ctx, by, p.Event, all, func(o action.Preview) { a.preview(by, p.Event, o) })
	}
	return err
}

// plain marks an error in informd's own words.
func plain(err error) error {
	if err != nil {
		err = dispatch.Plain(err)
	}
	return err
}

// errEnough ends a walk: what follows is not performed now.
var errEnough = errors.New("the steps that follow are not performed")

// run makes the attempt.
func (w *wave) run(ctx context.Context) error {
	err := w.Acts.Walk(func(p delivery.Piece) error { return w.ask(ctx, p) })
	if err != nil {
		return cmp.Or(w.failed.refused, plain(err))
	}
	w.options.thin(func() bool { return w.table.Thin(thinAtOnce) })
	isNew := false
	w.within(func() {
		var heirs []targets.Claim
		w.prune.dropped, heirs, isNew = w.table.Asked(w.Acts.Prunes)
		w.options.Inherit(heirs)
	})
	if isNew {
		if err := w.await(ctx); err != nil {
			return err
		}
	}
	w.seq = w.begin(ctx, w.by, w.Event, func() bool { return w.halt(ctx) != nil })
	err = w.Acts.Walk(func(p delivery.Piece) error { return w.perform(ctx, p) })
	w.group.Wait()
	return w.result(ctx, err)
}

// within calls f within a cut of the state.
func (w *wave) within(f func()) {
	defer w.options.State.Begin()()
	f()
}

// halt returns an error if nothing more is to be done now.
func (w *wave) halt(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case w.Stop(), w.rule.Memory.Ended():
		return dispatch.ErrStopped
	}
	return nil
}

// ask asks for the targets of a piece, which it checks. In the second walk it asks once more, for
// what was not known in the first one.
func (w *wave) ask(ctx context.Context, p delivery.Piece) error {
	if err := w.halt(ctx); err != nil {
		return err
	}
	if !w.Acts.IsKept() { // the dispatcher has checked what is kept
		if w.failed.refused = w.check(w.by, w.Event, p.Actions); w.failed.refused != nil {
			return w.failed.refused
		}
	}
	w.note(p)
	w.options.State.Pace()
	isOver, isNew := false, false
	w.within(func() {
		// A reload forgets the claims of a rule that is gone or acts no more: these would stay.
		if isOver = w.rule.Memory.Ended() || w.Stop(); isOver {
			return
		}
		for _, a := range p.Actions {
			if _, is := action.IsPrune(a); is && w.isWhole() {
				continue
			}
			if at := w.targetOf(a); at.CanExist() {
				isNew = w.table.Ask(at, w.owns(a)) || isNew
			}
		}
	})
	switch {
	case isOver:
		return dispatch.ErrStopped
	case isNew:
		return w.await(ctx)
	}
	return nil
}

// await returns nil once what was recorded may be acted upon. An error ends the wave.
func (w *wave) await(ctx context.Context) error {
	if err := w.options.State.Await(ctx); err != nil {
		return fmt.Errorf("%w: %w", dispatch.ErrUnwritten, err)
	}
	return nil
}

// owns reports whether the source object owns what an action is about.
func (w *wave) owns(a handler.Action) bool { return isApply(a) && w.rule.Owns() }

// isWhole reports whether the table has all that the rule has ever applied. If not, the wave looks
// for labels as well, to prune what an informd before this one has applied.
func (w *wave) isWhole() bool {
	return w.rule.Owns() && w.options.Targets.Whole(w.rule.ID) == w.rule.Preparer.Whole()
}

// note notes what a piece applies and prunes.
func (w *wave) note(p delivery.Piece) {
	for _, a := range p.Actions {
		if _, is := action.IsPrune(a); is {
			if !slices.Contains(w.prune.resources, a.Resource) {
				w.prune.resources = append(w.prune.resources, a.Resource)
			}
			continue
		}
		if w.seq == nil {
			w.total++
		}
		if w.prune.applied != nil && isApply(a) {
			w.prune.applied[appliedAt(schema.GroupVersionResource(a.Resource), keyOf(a))] = struct{}{}
		}
	}
}

func isApply(a handler.Action) bool { return a.Verb == handler.ActionApply && a.Subresource == "" }

func keyOf(a handler.Action) delta.Key { return delta.Key{Namespace: a.Namespace, Name: a.Name} }

// appliedAt returns a target in no version.
func appliedAt(resource schema.GroupVersionResource, key delta.Key) targets.Target {
	resource.Version = ""
	return targets.Target{Resource: resource, Key: key}
}

// keeps reports whether a prune by labels leaves an object: the rule applies it, or it is another
// source object's by now.
func (w *wave) keeps(resource schema.GroupVersionResource, key delta.Key) bool {
	at := appliedAt(resource, key)
	if _, is := w.prune.applied[at]; is {
		return true
	}
	owner, ok := w.options.Targets.Owner(at)
	return ok && owner.Asker != w.asker
}

// targetOf returns what an action is about.
func (w *wave) targetOf(a handler.Action) targets.Target {
	at := targets.Target{
		Resource: schema.GroupVersionResource(a.Resource), Subresource: a.Subresource, Key: keyOf(a),
	}
	if _, is := action.IsPrune(a); is {
		at.Subresource, at.Key = pruneTarget, w.asker.Key
	} else if a.Verb == handler.ActionEvent {
		at.Subresource = eventTarget
	}
	return at
}

// one is an action of the wave.
type one struct {
	handler.Action
	target targets.Target
	label  string
	number int
	drops  bool // the target is to be deleted
}

// perform performs a piece, and returns when all of its requests have ended.
func (w *wave) perform(ctx context.Context, p delivery.Piece) error {
	isPrune := p.Label == ""
	if !w.isBegun || p.Label != w.label {
		w.isBegun, w.label = true, p.Label
		if w.failed.count > 0 && (!w.Acts.Prunes || w.prune.isBegun || w.failed.theirs < w.failed.count) {
			return errEnough
		}
	}
	if !isPrune && w.failed.atStep != p.Label && w.failed.count > 0 {
		return nil // only the prune is still performed
	}
	w.prune.isBegun = w.prune.isBegun || isPrune
	if isPrune {
		if err := w.drop(ctx); err != nil {
			return err
		}
		if w.isWhole() {
			return nil
		}
	}
	if !w.Acts.IsKept() {
		if err := w.ask(ctx, p); err != nil {
			return err
		}
	}
	left := make([]one, 0, len(p.Actions))
	for _, a := range p.Actions {
		o := one{Action: a, target: w.targetOf(a), label: p.Label}
		if !isPrune {
			w.number++
			o.number = w.number
		}
		left = append(left, o)
	}
	return w.tryAll(ctx, left)
}

// drop deletes what the source object asks for no more.
func (w *wave) drop(ctx context.Context) error {
	w.total += len(w.prune.dropped)
	all := make([]one, len(w.prune.dropped))
	for i, c := range w.prune.dropped {
		all[i] = one{
			Action: handler.Action{
				Verb: handler.ActionDelete, Resource: newestOf(w.rule, c.Target.Resource),
				Namespace: c.Target.Key.Namespace, Name: c.Target.Key.Name,
			},
			target: c.Target, drops: true,
		}
	}
	did, end := w.seq.BeginPrune(len(all))
	defer end()
	w.prune.did = did
	return w.tryAll(ctx, all)
}

// newestOf returns a resource in the version in which a rule applies it now.
func newestOf(of *live.Rule, r schema.GroupVersionResource) handler.Resource {
	for _, now := range of.Prune {
		if now.GroupResource() == r.GroupResource() {
			return handler.Resource(now)
		}
	}
	return handler.Resource(r)
}

// tryAll performs actions, those on the same target one after the other.
func (w *wave) tryAll(ctx context.Context, left []one) (err error) {
	for len(left) > 0 && err == nil {
		left, err = w.round(ctx, left)
	}
	return err
}

// round performs actions, and returns those that have to wait for another one on the same target.
func (w *wave) round(ctx context.Context, all []one) (left []one, err error) {
	busy := make(map[targets.Target]bool, len(all))
	for _, o := range all {
		if busy[o.target] {
			left = append(left, o)
			continue
		}
		busy[o.target] = true
		if w.Rest != nil {
			w.Rest()
		}
		if err = w.try(ctx, o); err != nil {
			break
		}
	}
	w.group.Wait()
	for _, o := range w.failed.waiting {
		if attempt, verdict := w.judge(o); verdict == targets.Try {
			w.settle(attempt, targets.Outcome{State: targets.Asked})
		} else {
			w.waitFor(attempt.Claim.Due)
		}
	}
	w.failed.waiting = nil
	return left, cmp.Or(err, w.inTrouble())
}

func (w *wave) now() time.Time { return w.options.Clock.Now() }

// waitFor notes that a target is tried again at a time, which may be unknown.
func (w *wave) waitFor(due time.Time) {
	if w.due.IsZero() || !due.IsZero() && due.Before(w.due) {
		w.due = due
	}
}

// try begins a request, if it may be made now.
func (w *wave) try(ctx context.Context, o one) error {
	if !o.target.CanExist() {
		err := errors.New("no cluster can have an object of that name")
		w.fail(o, "", handler.Reject(fmt.Errorf("%s: %w", o.name(), err)))
		return nil
	}
	select {
	case w.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := w.halt(ctx)
	if err == nil {
		err = w.inTrouble()
	}
	if err != nil {
		<-w.room
		return err
	}
	attempt, verdict := w.judge(o)
	switch verdict {
	case targets.Skip:
		w.hasSkipped = true
	case targets.Try:
		if !w.isVerified {
			if err := w.verify(ctx); err != nil {
				<-w.room
				w.giveUp(attempt, err)
				return err
			}
			w.isVerified = true
		}
		w.group.Go(func() {
			defer func() { <-w.room }()
			w.send(ctx, o, attempt)
		})
		return nil
	case targets.Wait:
		w.waitFor(attempt.Claim.Due)
		w.fail(o, attempt.Claim.Cause, w.whyWaits(o, attempt.Claim))
	case targets.Refuse:
		if attempt.Claim.Asker != w.asker {
			again, err := w.guard.isBehind(o, attempt.Claim, w.Event.Attempt)
			if !again.IsZero() {
				w.waitFor(again)
			}
			w.fail(o, string(action.CauseForeign), err)
			break
		}
		err := w.failing.of(w.asker, o, attempt.Claim)
		if !errors.Is(err, handler.ErrReject) {
			err = handler.Reject(err)
		}
		w.fail(o, attempt.Claim.Cause, err)
	}
	<-w.room
	return nil
}

// whyWaits returns the error of a target that is not tried now. claim is zero if it has none.
func (w *wave) whyWaits(o one, claim targets.Claim) error {
	switch {
	case claim.Failures > 0:
		return w.failing.of(w.asker, o, claim)
	case claim.Asker != (targets.Asker{}):
		return fmt.Errorf("%s: another request for it is under way", o.name())
	case w.options.Targets.IsFull():
		return fmt.Errorf("%s: informd notes what rules have asked for of %d targets, and has no "+
			"room for another one", o.name(), targets.MaxClaims)
	}
	return fmt.Errorf("%s: it has changed hands just now: informd asks for it again", o.name())
}

// judge says what to do about a target now.
func (w *wave) judge(o one) (targets.Attempt, targets.Verdict) {
	if o.drops {
		return w.table.TryDropped(o.target, w.now())
	}
	return w.table.Try(o.target, w.now())
}

// inTrouble returns why the wave ends early, or nil.
func (w *wave) inTrouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed.stopped != nil {
		return w.failed.stopped
	}
	return w.failed.trouble
}

// name says what an action is, as errors about it begin.
func (o one) name() string { return action.Name(o.label, o.Action) }

// send makes a request, and settles it.
func (w *wave) send(ctx context.Context, o one, attempt targets.Attempt) {
	if attempt.Claim.Former != (targets.Asker{}) {
		if err := w.await(ctx); err != nil { // that the target has changed hands
			w.giveUp(attempt, err)
			return
		}
	}
	ended, err := w.request(ctx, o, attempt.Claim)
	if attempt.Claim.State == targets.Dropped && action.IsNotServed(err) {
		// The object is gone, most likely. If it comes back, a look by labels finds it.
		w.within(func() { w.options.Targets.SetWhole(w.rule.ID, "") })
		ended, err = action.Ended{Why: action.CauseNotServed}, nil
	}
	if errors.Is(err, action.ErrStopped) {
		w.giveUp(attempt, dispatch.ErrStopped)
		return
	}
	outcome := targets.Outcome{State: targets.Done, Cause: string(ended.Why)}
	isFinal := errors.Is(err, handler.ErrReject)
	isUnanswered := err != nil && ctx.Err() != nil || action.InTrouble(err)
	w.mu.Lock()
	isTrouble := w.failed.isTrouble(err, attempt.Claim) || isUnanswered
	w.mu.Unlock()
	switch {
	case err == nil:
	case isUnanswered, errors.Is(err, action.ErrConflict) && !isFinal, errors.Is(err, errOwned):
		outcome = targets.Outcome{State: targets.Asked} // it is not the target's fault
	case isFinal:
		outcome.State = targets.Refused
	default:
		outcome.State, outcome.After = targets.Waits, ended.After
	}
	if outcome.State != targets.Done && !action.Quotes(err) {
		outcome.Reason = err.Error()
	}
	w.settle(attempt, outcome)
	if attempt.Claim.State == targets.Dropped && w.prune.did != nil {
		w.prune.did()
	}
	if err == nil {
		w.failing.remove(w.asker, o.target)
		return
	}
	if outcome.State == targets.Waits || outcome.State == targets.Refused {
		w.failing.add(w.asker, o.target, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed.add(o, ended.Why == action.CauseForeign, err)
	if outcome.State == targets.Waits {
		w.failed.waiting = append(w.failed.waiting, o)
	}
	if isTrouble && w.failed.trouble == nil {
		w.failed.trouble = err
	}
}

// giveUp ends an attempt that has made no request, and with it the wave.
func (w *wave) giveUp(attempt targets.Attempt, why error) {
	w.settle(attempt, targets.Outcome{State: targets.Asked})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed.stopped = cmp.Or(w.failed.stopped, why)
}

// request makes a request for a target with a claim. A panic is an error.
func (w *wave) request(
	ctx context.Context, o one, claim targets.Claim,
) (ended action.Ended, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.options.Logger.Error("panic while an action was performed", "rule", w.by.Rule,
				"id", w.Event.ID, "stack", printable.Cut(string(debug.Stack()), 4096))
			ended, err = action.Ended{}, fmt.Errorf("%s: panic: %T", o.name(), p)
		}
	}()
	if selector, is := action.IsPrune(o.Action); is {
		return w.seq.Prune(ctx, schema.GroupVersionResource(o.Resource), selector, w.keeps)
	}
	request := action.Request{Action: o.Action, Label: o.label, Number: o.number}
	switch {
	case claim.State == targets.Dropped:
		request.Judge = w.guard.dropped(claim)
	case w.owns(o.Action):
		request.Judge = w.guard.applied(o, claim)
	}
	request.Prunes = isApply(o.Action) && slices.ContainsFunc(w.prune.resources, func(r handler.Resource) bool {
		return r.Group == o.Resource.Group && r.Resource == o.Resource.Resource
	})
	return w.seq.One(ctx, request)
}

func (w *wave) settle(attempt targets.Attempt, o targets.Outcome) {
	w.within(func() {
		if next := attempt.Settle(o, w.now()); next != nil {
			w.options.Inherit([]targets.Claim{*next})
		}
	})
}

// fail notes an action that fails without a request.
func (w *wave) fail(o one, cause string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed.add(o, cause == string(action.CauseForeign), err)
}

// minWait is the least time until a delivery with targets that wait is tried again.
const minWait = 100 * time.Millisecond

// result returns what comes of the wave. walked is the error of the second walk.
func (w *wave) result(ctx context.Context, walked error) error {
	err := w.failed.of(w.table.Objects())
	isKnown := walked == nil || errors.Is(walked, errEnough) || walked == w.failed.trouble
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !isKnown:
		return cmp.Or(w.failed.refused, plain(walked))
	case err == nil:
		return nil
	}
	if w.Acts.Prunes && !w.prune.isBegun {
		err = fmt.Errorf("%w; nothing was pruned", err)
	}
	if !w.failed.quotes {
		err = dispatch.Plain(err)
	}
	switch {
	case w.failed.trouble != nil, errors.Is(err, handler.ErrReject):
		return err
	case errors.Is(err, action.ErrConflict):
		return fmt.Errorf("%w: %w", dispatch.ErrStale, err)
	}
	now := w.now()
	due := w.due
	if due.IsZero() {
		due = w.table.Left(now).Due
	}
	return dispatch.Later(max(due.Sub(now), minWait), err)
}
