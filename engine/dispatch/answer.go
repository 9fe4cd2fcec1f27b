package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/informd/informd/plugins/handler"
)

const (
	// maxActions is how many actions one answer may ask for: handler.Answer says so. A lane's own may be more.
	maxActions     = 64
	maxLaneActions = 1024 + 64 // what it prunes comes on top
	// maxAnswer is how many bytes an answer's actions may have, about.
	maxAnswer = 8 << 20
	// actionOverhead is what an action takes beside its texts, about.
	actionOverhead = 256
)

// secrets are the resource of whose objects no text is recorded.
var secrets = handler.Resource{Version: "v1", Resource: "secrets"}

// answer is what is to be carried out for a delivery: as text if that is recorded, else as it came. It is immutable.
type answer struct {
	text    json.RawMessage
	actions []handler.Action
}

func (a *answer) size() int {
	if a == nil {
		return 0
	}
	return len(a.text) + sizeOf(a.actions)
}

// record is what is recorded of the answer; nil for nil.
func (a *answer) record() json.RawMessage {
	if a == nil {
		return nil
	}
	return a.text
}

// read gives the actions.
func (a *answer) read() (actions []handler.Action, err error) {
	if a.text == nil {
		return a.actions, nil
	}
	if err := json.Unmarshal(a.text, &actions); err != nil {
		return nil, err
	}
	for i := range actions { // what is nil was written as null
		for _, text := range []*json.RawMessage{&actions[i].Object, &actions[i].Patch} {
			if string(*text) == "null" {
				*text = nil
			}
		}
	}
	return actions, nil
}

func sizeOf(actions []handler.Action) (size int) {
	for _, a := range actions {
		size += actionOverhead + len(a.Object) + len(a.Patch) + len(a.Namespace) + len(a.Name) + len(a.Reason) + len(a.Message)
	}
	return size
}

// answerOf makes an answer that is recorded, if it may be.
func (l *Lane) answerOf(actions []handler.Action) (*answer, error) {
	if size := sizeOf(actions); size > maxAnswer {
		return nil, handler.Reject(fmt.Errorf("the answer's actions have %d bytes, more than %d", size, maxAnswer))
	}
	if !l.mayRecord(actions) {
		return &answer{actions: actions}, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(actions); err != nil {
		return nil, handler.Reject(errors.New("the answer's actions hold what is not JSON")) // which err would quote
	}
	return &answer{text: bytes.TrimSpace(text.Bytes())}, nil
}

// mayRecord tells whether actions are recorded: not where they may have text of a Secret.
func (l *Lane) mayRecord(actions []handler.Action) bool {
	for _, a := range actions {
		if a.Resource == secrets {
			return false
		}
	}
	return l.records && (l.secret == nil || !l.secret())
}

// act carries out what f was answered with, if it was. What is to be done is recorded before any of it is.
func (d *Dispatcher) act(ctx context.Context, f *flight, actions []handler.Action, failure error) (err error) {
	defer d.recovered(f.event, &err)
	n, most := len(actions), maxActions
	if f.lane.actions != nil {
		most = maxLaneActions
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
	if f.item.Value.answer, err = f.lane.answerOf(actions); err != nil {
		return err
	}
	if err := d.record(ctx, f); err != nil {
		return err
	}
	return d.opts.Actor.Do(ctx, &f.event, actions)
}

// record records what f was answered with, and returns when that is on disk. A store in trouble holds nothing up: it says so
// itself, and after a crash the handler is asked again.
func (d *Dispatcher) record(ctx context.Context, f *flight) error {
	if f.item.Value.answer.text == nil {
		return nil
	}
	d.opts.Journal.Begin()
	f.lane.queue.Rewrite(f.item.Key, f.item.Value)
	d.opts.Journal.End()
	if err := d.opts.Journal.Written(ctx); err != nil && ctx.Err() == nil {
		f.lane.logUnrecorded(err)
	}
	return ctx.Err()
}

// repeat carries out once more what f was answered with before. If ok is false that cannot be, or is not allowed any more, and
// the handler is to be asked.
func (d *Dispatcher) repeat(ctx context.Context, f *flight) (ok bool, err error) {
	defer d.recovered(f.event, &err)
	actions, err := f.item.Value.answer.read()
	if err != nil || d.opts.Actor == nil || d.opts.Actor.Check(&f.event, actions) != nil {
		f.item.Value.answer = nil
		return false, nil
	}
	ok = true // whatever happens now
	return ok, d.opts.Actor.Do(ctx, &f.event, actions)
}

// evaluate makes the actions of f, whose lane does so itself.
func (d *Dispatcher) evaluate(ctx context.Context, f *flight) (actions []handler.Action, err error) {
	defer d.recovered(f.event, &err)
	return f.lane.actions(ctx, f.item.Value.match.Delta)
}
