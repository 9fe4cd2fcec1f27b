package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

const (
	// maxActions bounds the actions of one answer, as handler.Answer documents.
	maxActions = 64
	// maxAnswer bounds the memory of an answer's actions, in bytes.
	maxAnswer = 8 << 20
)

// answer makes an answer of actions. It encodes them as JSON if they may be recorded.
func (l *Lane) answer(actions []handler.Action) (*delivery.Answer, error) {
	if size := delivery.SizeOf(actions); size > maxAnswer {
		return nil, handler.Reject(
			fmt.Errorf("the answer's actions have %d bytes, more than %d", size, maxAnswer))
	}
	if !l.mayRecord(actions) {
		return &delivery.Answer{Actions: actions}, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(actions); err != nil {
		// err would quote the text
		return nil, handler.Reject(errors.New("an action of the answer is not valid JSON"))
	}
	return &delivery.Answer{Text: bytes.TrimSpace(text.Bytes())}, nil
}

// mayRecord reports whether actions may be recorded. They may not if they may hold text of a
// Secret.
func (l *Lane) mayRecord(actions []handler.Action) bool {
	for _, a := range actions {
		if a.Resource == delivery.Secrets {
			return false
		}
	}
	return l.opts.Store != nil && !l.isConfidential()
}

// act performs the actions that answer f, and returns the first error. If the answer is failure,
// act returns that instead. It records the actions before it performs the first.
func (d *Dispatcher) act(
	ctx context.Context, f *flight, actions []handler.Action, failure error,
) (err error) {
	defer d.recovered(f.event, &err)
	n, actor := len(actions), d.opts.Actor
	switch {
	case failure != nil || n == 0:
		return failure
	case actor == nil:
		return handler.Reject(fmt.Errorf("the answer asks for %d actions, "+
			"and the handler is allowed none: its spec.access.write is empty", n))
	case n > maxActions:
		return handler.Reject(fmt.Errorf("the answer asks for %d actions, more than %d", n, maxActions))
	}
	if err := actor.Check(&f.event, actions); err != nil {
		return err
	}
	if f.item.Value.Answer, err = f.lane.answer(actions); err != nil {
		return err
	}
	if err := d.record(ctx, f); err != nil {
		return err
	}
	return actor.Do(ctx, &f.event, actions)
}

// actOwn performs the rule's own actions for f. It records those that are kept before it performs
// the first: after a crash they are repeated as they were.
func (f *flight) actOwn(ctx, run context.Context, acts *delivery.Acts) (err error) {
	d := f.lane.dispatcher
	defer d.recovered(f.event, &err)
	if acts.IsEmpty() {
		return nil
	}
	if f.lane.opts.Actor == nil {
		return handler.Reject(errors.New("the rule is allowed no actions"))
	}
	if acts.IsKept() {
		actions := acts.Actions()
		if err := f.lane.opts.Actor.Check(&f.event, actions); err != nil {
			return err
		}
		// after the handler's acknowledgement, own actions are made again: only that is recorded
		if !f.item.Value.Answer.IsAcknowledged() && f.lane.mayRecord(actions) {
			if f.item.Value.Answer, err = acts.Answer(); err != nil {
				return handler.Reject(errors.New("an action is not valid JSON")) // err would quote it
			}
			if err := d.record(ctx, f); err != nil {
				return err
			}
		}
	}
	return f.perform(ctx, run, acts)
}

// perform performs the rule's own actions, and notes what they have changed.
func (f *flight) perform(ctx, run context.Context, acts *delivery.Acts) error {
	lane := f.lane
	stop := func() bool {
		return run.Err() != nil || lane.Paused() || lane.newest() != lane ||
			lane.dispatcher.isHalted.Load()
	}
	clock := lane.dispatcher.opts.Clock
	since := clock.Now()
	did, err := lane.opts.Actor.Perform(ctx, Performance{
		Key: f.item.Key, Event: &f.event, Acts: acts, Account: lane.opts.Account,
		Resync: f.item.Value.Resync, Stop: stop,
		Rest: func() {
			if clock.Since(since) >= restsAfter {
				lane.dispatcher.rest(lane, stop)
				since = clock.Now()
			}
		},
	})
	if err == nil && did != 0 && f.does == trail.Acted {
		f.does = did
	}
	return err
}

// record records the answer of f, and returns when it is on disk. A store in trouble does not stop
// the actions, unless the Journal is strict: record logs the trouble, and after a crash the
// dispatcher asks the handler again. The error is that of ctx, or ErrUnwritten.
func (d *Dispatcher) record(ctx context.Context, f *flight) error {
	if d.isHalted.Load() {
		return ErrUnwritten
	}
	if f.item.Value.Answer.Text == nil {
		return nil
	}
	var cut uint64
	within(d.opts.Journal, func() { cut = f.lane.queue.Rewrite(f.item.Key, f.item.Value) })
	err := d.opts.Journal.Written(ctx)
	switch {
	case ctx.Err() != nil || err == nil:
		return ctx.Err()
	case !d.await(ctx, cut):
		return cmp.Or(ctx.Err(), ErrUnwritten)
	}
	f.lane.reports.reportUnrecorded(err)
	return nil
}
