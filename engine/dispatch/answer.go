package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/plugins/handler"
)

const (
	// maxActions bounds the actions of one answer, as handler.Answer says. maxOwnActions bounds those of a rule that acts
	// itself: what it prunes comes on top of what it may yield.
	maxActions    = 64
	maxOwnActions = 1024 + 64
	// maxAnswer bounds the memory of an answer's actions, in bytes. actionOverhead is what an action takes beside its texts.
	maxAnswer      = 8 << 20
	actionOverhead = 256
)

// secrets is the resource of objects whose text is never recorded.
var secrets = handler.Resource{Version: "v1", Resource: "secrets"}

// sizeOfAnswer returns roughly how many bytes of memory an answer takes; 0 for nil.
func sizeOfAnswer(a *delivery.Answer) int {
	if a == nil {
		return 0
	}
	return len(a.Text) + sizeOf(a.Actions)
}

func sizeOf(actions []handler.Action) (size int) {
	for _, a := range actions {
		size += actionOverhead + len(a.Object) + len(a.Patch) + len(a.Namespace) + len(a.Name) + len(a.Reason) + len(a.Message)
	}
	return size
}

// answer makes an answer of actions, as JSON if it may be recorded.
func (l *Lane) answer(actions []handler.Action) (*delivery.Answer, error) {
	if size := sizeOf(actions); size > maxAnswer {
		return nil, handler.Reject(fmt.Errorf("the answer's actions have %d bytes, more than %d", size, maxAnswer))
	}
	if !l.mayRecord(actions) {
		return &delivery.Answer{Actions: actions}, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(actions); err != nil {
		return nil, handler.Reject(errors.New("the answer's actions hold what is not JSON")) // err would quote it
	}
	return &delivery.Answer{Text: bytes.TrimSpace(text.Bytes())}, nil
}

// mayRecord reports whether actions may be recorded: not if they may hold text of a Secret.
func (l *Lane) mayRecord(actions []handler.Action) bool {
	for _, a := range actions {
		if a.Resource == secrets {
			return false
		}
	}
	return l.opts.Store != nil && !l.isConfidential()
}

// isConfidential reports whether answers and reasons may quote a Secret.
func (l *Lane) isConfidential() bool {
	return l.opts.Preparer != nil && l.opts.Preparer.IsConfidential()
}

// act carries out the actions that f was answered with, and returns failure if it was answered with that. The actions are
// recorded before the first of them is carried out.
func (d *Dispatcher) act(ctx context.Context, f *flight, actions []handler.Action, failure error) (err error) {
	defer d.recovered(f.event, &err)
	n, most := len(actions), maxActions
	if f.lane.opts.ActsItself {
		most = maxOwnActions
	}
	switch {
	case failure != nil || n == 0:
		return failure
	case d.opts.Actor == nil:
		return handler.Reject(fmt.Errorf("the answer asks for %d actions, and the handler is allowed none: its spec.access.write is empty", n))
	case n > most:
		return handler.Reject(fmt.Errorf("the answer asks for %d actions, more than %d", n, most))
	}
	if err := d.opts.Actor.Check(&f.event, actions); err != nil {
		return err
	}
	if f.item.Value.Answer, err = f.lane.answer(actions); err != nil {
		return err
	}
	if err := d.record(ctx, f); err != nil {
		return err
	}
	return d.opts.Actor.Do(ctx, &f.event, actions)
}

// record records the answer of f, and returns when it is on disk. A store in trouble holds nothing up: the trouble is
// reported, and after a crash the handler is asked again.
func (d *Dispatcher) record(ctx context.Context, f *flight) error {
	if f.item.Value.Answer.Text == nil {
		return nil
	}
	d.opts.Journal.Begin()
	f.lane.queue.Rewrite(f.item.Key, f.item.Value)
	d.opts.Journal.End()
	if err := d.opts.Journal.Written(ctx); err != nil && ctx.Err() == nil {
		f.lane.reportUnrecorded(err)
	}
	return ctx.Err()
}

// repeat carries out once more what f was answered with in an earlier attempt. If that cannot be read or is not allowed any
// more, the attempt goes on, and the handler is asked.
func (d *Dispatcher) repeat(ctx, run context.Context, f *flight) (ended bool) {
	v := &f.item.Value
	if v.Answer == nil {
		return false
	}
	if v.Stale && d.prepare(ctx, run, f) { // a dead letter of it would have the payload of another event
		return true
	}
	ended, err := d.redo(ctx, f)
	if ended {
		d.settle(run, f, err)
		return true
	}
	v.Answer = nil
	return false
}

// redo carries out the answer of f. If ok is false that cannot be done.
func (d *Dispatcher) redo(ctx context.Context, f *flight) (ok bool, err error) {
	defer d.recovered(f.event, &err)
	actions, err := f.item.Value.Answer.Read()
	if err != nil || d.opts.Actor == nil || d.opts.Actor.Check(&f.event, actions) != nil {
		return false, nil
	}
	ok = true // whatever happens now
	return ok, d.opts.Actor.Do(ctx, &f.event, actions)
}
