package dispatch

import (
	"context"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delivery"
)

// prepare lets the lane's Preparer complete f. It ends the attempt if there is nothing to deliver,
// if the Preparer fails, or with the rule's own actions if their turn has come.
func (d *Dispatcher) prepare(ctx, run context.Context, f *flight) (ended bool) {
	v := &f.item.Value
	renews, isPointless := f.lane.renews(f)
	if isPointless {
		d.giveUp(f)
		return true
	}
	if len(v.Items) > 0 && d.prepareItems(ctx, f) {
		return true
	}
	isStale := f.lane.traits.isStale(v.Stale, v.Payload)
	isIncomplete := f.lane.traits.preparesAll || v.Undecided || isStale || renews
	if f.lane.opts.Preparer == nil || !isIncomplete {
		return false
	}
	p, err := d.prepared(ctx, f, delivery.Draft{
		Delta: v.Delta, Payload: v.Payload, Undecided: v.Undecided, Stale: isStale, Renew: renews,
		Acknowledged: v.Answer.IsAcknowledged(), Items: v.Items,
	})
	if err == nil && p.Nothing {
		if v.Undecided && !renews { // the Preparer remembers why
			d.drop(f)
		} else {
			d.giveUp(f)
		}
		return true
	}
	isAnother := false
	if p.Delta.Object != nil {
		isAnother = d.adopt(f, p, renews)
	}
	if p.Count != nil && !d.count(ctx, f, p.Count) {
		return true
	}
	if err != nil {
		d.settle(run, f, afterwards(f, err))
		return true
	}
	if isAnother && d.slow(ctx, run, f) {
		return true
	}
	if f.lane.traits.actsNow(v) {
		f.beginActs(p.Acts)
		d.settle(run, f, afterwards(f, f.actOwn(ctx, run, p.Acts)))
		return true
	}
	return false
}

// count counts the event of f, which has just been decided, and ends f unless the event goes on. It
// puts f back if the count is not written. A restart finds the event either counted and decided, or neither. If it goes on and still cannot be
// delivered, it is a dead letter next; after a crash before that, counting it again gives the same.
func (d *Dispatcher) count(ctx context.Context, f *flight, m *count.Hit) (goesOn bool) {
	var cut uint64
	within(d.opts.Journal, func() {
		q, key, v := f.lane.queue, f.item.Key, f.item.Value
		goesOn = f.lane.count(v.Delta, m)
		switch {
		case !goesOn:
			f.lane.done(key)
		case !v.Undecided:
			v.Attempts-- // it has not been handed out
			cut = q.Rewrite(key, v)
		}
	})
	if !goesOn {
		d.land(f.job)
		return false
	}
	if !d.await(ctx, cut) {
		f.item.Value.Attempts-- // it has not been handed out
		d.postpone(f, 0)
		return false
	}
	return true
}

// prepareItems decides the items of a group's event, and remakes their payloads. An item that
// cannot be made leaves the group: it is delivered by itself, and so becomes a dead letter alone.
// If the newest change is not delivered, the newest item takes its place. prepareItems ends the
// attempt if nothing is left.
func (d *Dispatcher) prepareItems(ctx context.Context, f *flight) (ended bool) {
	v := &f.item.Value
	all := append(slices.Clone(v.Items), delivery.Item{
		Delta: v.Delta, Payload: v.Payload, Stale: v.Stale, Undecided: v.Undecided,
	})
	var made, failed []preparedItem
	for _, item := range all {
		isStale := f.lane.traits.isStale(item.Stale, item.Payload)
		if f.lane.opts.Preparer == nil || !item.Undecided && !isStale {
			made = append(made, preparedItem{Item: item})
			continue
		}
		p, err := d.prepared(ctx, f, delivery.Draft{
			Delta: item.Delta, Payload: item.Payload, Undecided: item.Undecided, Stale: isStale,
			IsItem: true,
		})
		switch now := (delivery.Item{Delta: p.Delta, Payload: p.Payload}); {
		case err != nil:
			failed = append(failed, preparedItem{item, p.Count, true})
		case !p.Nothing:
			made = append(made, preparedItem{now, p.Count, true})
		}
	}
	isNew := func(i preparedItem) bool { return i.isNew }
	if len(made) == len(all) && !slices.ContainsFunc(made, isNew) {
		return false
	}
	return d.regroup(ctx, f, made, failed)
}

// preparedItem is an item of a group after its preparation. isNew says that it needed any.
type preparedItem struct {
	delivery.Item
	count *count.Hit
	isNew bool
}

// regroup makes f the event of those of its items that could be made. It counts those that have
// just been decided. It ends the attempt if nothing is left, or if that is not written.
func (d *Dispatcher) regroup(
	ctx context.Context, f *flight, made, failed []preparedItem,
) (ended bool) {
	v, q := &f.item.Value, f.lane.queue
	isOver := func(i preparedItem) bool { return !f.lane.count(i.Delta, i.count) }
	var cut uint64
	within(d.opts.Journal, func() {
		made = slices.DeleteFunc(made, isOver)
		failed = slices.DeleteFunc(failed, isOver)
		if len(made) == 0 && len(failed) > 0 { // the newest of them fails in this attempt
			last := len(failed) - 1
			made, failed = failed[last:], failed[:last]
		}
		for _, item := range failed {
			q.AddSince(item.Delta.Key(), delivery.Delivery{
				Delta: item.Delta, Payload: item.Payload,
				Stale: item.Stale, Undecided: item.Undecided,
			}, f.item.Since)
		}
		if ended = len(made) == 0; ended {
			f.lane.done(f.item.Key)
			return
		}
		last := len(made) - 1
		v.Delta, v.Payload = made[last].Delta, made[last].Payload
		v.Stale, v.Undecided = made[last].Stale, made[last].Undecided
		v.Items = make([]delivery.Item, 0, last)
		for _, item := range made[:last] {
			v.Items = append(v.Items, item.Item)
		}
		rewritten := *v
		rewritten.Attempts-- // it has not been handed out
		cut = q.Rewrite(f.item.Key, rewritten)
	})
	if ended {
		d.land(f.job)
		return true
	}
	if !d.await(ctx, cut) {
		f.item.Value.Attempts-- // it has not been handed out
		d.postpone(f, 0)
		return true
	}
	f.event = f.lane.event(&f.item)
	return false
}

// afterwards adds to an error that the handler, if there is one, was done with the event before.
func afterwards(f *flight, err error) error {
	hasHandler := f.lane.dispatcher.to.Handler != nil
	if err == nil || !hasHandler || !f.item.Value.Answer.IsAcknowledged() {
		return err
	}
	return fmt.Errorf("the handler acknowledged the event, but the rule's own actions failed: %w", err)
}

// prepared calls the Preparer, and turns a panic into an error. Only the Preparer's own errors are
// plain: a panic may quote anything.
func (d *Dispatcher) prepared(
	ctx context.Context, f *flight, draft delivery.Draft,
) (p delivery.Prepared, err error) {
	defer d.recovered(f.event, &err)
	p, err = f.lane.opts.Preparer.Prepare(ctx, draft)
	if err != nil {
		err = &plainError{err}
	}
	return p, err
}

// adopt makes p what f delivers, and reports whether it is another event.
func (d *Dispatcher) adopt(f *flight, p delivery.Prepared, renewed bool) (isAnother bool) {
	v := &f.item.Value
	if isAnother = !sameEvent(p.Delta, v.Delta); isAnother {
		v.Attempts, v.Failures, v.Refusals, v.Weighed = 1, 0, 0, false
	}
	isAsBefore := !v.Undecided && !v.Stale && !renewed
	v.Delta, v.Payload, v.Undecided, v.Stale = p.Delta, p.Payload, false, false
	if !isAsBefore {
		f.event = f.lane.event(&f.item)
	}
	f.event.Attached = p.Attached
	return isAnother
}

// renews reports whether f must be remade from the cache, because its actions were refused for a
// newer change. A change that waits in memory right behind f was merged with it, or will be. If
// only the store holds newer changes, f is pointless: they come in their turn, and the handler has
// seen f. A dead letter that is delivered again never merges, and somebody asked for it. So it is
// remade whatever waits.
func (l *Lane) renews(f *flight) (renews, isPointless bool) {
	if f.item.Value.Refusals < renewAfter {
		return false, false
	}
	if f.item.Redriven {
		return true, false
	}
	waiting, away := l.queue.Waiting(f.item.Key)
	return waiting == 0, away > 0
}
