package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/informd/informd/plugins/handler"
)

func configMap(n int) handler.Event {
	name := fmt.Sprintf("handlertest-%d", n)
	object := func(value int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap",`+
			`"metadata":{"namespace":"default","name":%q,"uid":"uid-%d","resourceVersion":"%d"},`+
			`"data":{"key":"%d"}}`, name, n, 1000+value, value))
	}
	return handler.Event{
		ID:   fmt.Sprintf("handlertest/uid-%d/updated/1002", n),
		Rule: "handlertest", Event: handler.Updated, Attempt: 1,
		Resource:  handler.Resource{Version: "v1", Resource: "configmaps"},
		Namespace: "default", Name: name, UID: fmt.Sprintf("uid-%d", n), ResourceVersion: "1002",
		Object: object(2), Old: object(1),
	}
}

// answer sends an event and returns its answer. An event that cannot be sent for too long is lost.
func (t *trial) answer(ctx context.Context, k *keeper, ev handler.Event) (handler.Answer, error) {
	limited, cancel := context.WithTimeout(ctx, t.Timeout+t.patience)
	defer cancel()
	answer, err := k.handle(limited, ev)
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: it does not take events from its stream", handler.ErrLost)
	}
	return answer, err
}

// wantDone sends an event and wants it done.
func (t *trial) wantDone(
	ctx context.Context, k *keeper, what string, ev handler.Event,
) (done bool) {
	_, err := t.answer(ctx, k, ev)
	if err != nil {
		t.fail("%s: not done: %v", what, err)
	}
	return err == nil
}

// wantAnswer sends an event and accepts any answer that the handler gives.
func (t *trial) wantAnswer(ctx context.Context, k *keeper, what string, ev handler.Event) {
	_, err := t.answer(ctx, k, ev)
	switch {
	case errors.Is(err, handler.ErrLost):
		t.fail("%s ended it: %v", what, err)
	case errors.Is(err, handler.ErrNoAnswer):
		t.fail("%s was not answered: %v", what, err)
	case err != nil && strings.HasPrefix(err.Error(), "panic:"):
		t.fail("%s made it panic: %v", what, err)
	}
}

// inParallel calls f for 0 to n-1, each in a goroutine of its own, and waits for all of them.
func inParallel(n int, f func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() { defer wg.Done(); f(i) }()
	}
	wg.Wait()
}

func (t *trial) answers(ctx context.Context) {
	t.run(ctx, func(k *keeper) {
		if !t.wantDone(ctx, k, "an event", t.Event(1)) {
			t.broken = "it does not answer an event with done"
		}
	})
}

func (t *trial) repeats(ctx context.Context) {
	t.run(ctx, func(k *keeper) {
		for attempt := 1; attempt <= 3; attempt++ {
			ev := t.Event(1)
			ev.Attempt = attempt
			t.wantDone(ctx, k, fmt.Sprintf("attempt %d", attempt), ev)
		}
	})
}

func (t *trial) parallel(ctx context.Context) {
	t.run(ctx, func(k *keeper) {
		const events = concurrency + 14
		inParallel(events, func(n int) {
			t.wantDone(ctx, k, fmt.Sprintf("event %d of %d", n+1, events), t.Event(n))
		})
	})
}

// strange: odd events may be answered in any way, but the handler must survive them.
func (t *trial) strange(ctx context.Context) {
	change := func(f func(*handler.Event)) handler.Event {
		ev := t.Event(1)
		f(&ev)
		return ev
	}
	contents := func(object, payload json.RawMessage) handler.Event {
		return change(func(ev *handler.Event) {
			ev.Object, ev.Old, ev.Payload = object, nil, payload
		})
	}
	object := func(text string) handler.Event { return contents(json.RawMessage(text), nil) }
	occurred := func(event string) handler.Event {
		return change(func(ev *handler.Event) { ev.Event, ev.Old = event, nil })
	}
	t.run(ctx, func(k *keeper) {
		for _, c := range []struct {
			name string
			ev   handler.Event
		}{
			{"added", occurred(handler.Added)},
			{"deleted", occurred(handler.Deleted)},
			{"synced", occurred(handler.Synced)},
			{"a kind to come", change(func(ev *handler.Event) { ev.Event = "handlertest" })},
			{"of no namespace", change(func(ev *handler.Event) { ev.Namespace = "" })},
			{"of no object", contents(nil, nil)},
			{"of an empty object", object(`{}`)},
			{"of no JSON object", object(`[null]`)},
			{"with a payload", contents(nil, json.RawMessage(`"text"`))},
			{"with other fields", object(`{"metadata":{"labels":null,` +
				`"annotations":{"a/b.c":"\u0000ü"}},"handlertest":{"deep":[[[{}]]]}}`)},
			{"with other types", object(`{"metadata":[],"spec":1,"status":"x","data":true}`)},
			{"of a group", change(func(ev *handler.Event) {
				older, newest := t.Event(2), *ev
				older.Event, older.Old = handler.Added, nil
				ev.Items = []handler.Event{older, newest}
			})},
			{"of a replica, in a trace", change(func(ev *handler.Event) {
				ev.Epoch = handler.Epoch{Cluster: "handlertest", Generation: 1, Term: 1}
				ev.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			})},
			{"of nothing", handler.Event{}},
		} {
			t.wantAnswer(ctx, k, "an event "+c.name, c.ev)
		}
	})
}

// large: an event may hold two objects of the size that the API server takes, or a rule's payload,
// which can be more than gRPC takes by default.
func (t *trial) large(ctx context.Context) {
	text := func(size int) json.RawMessage {
		return json.RawMessage(`{"data":"` + strings.Repeat("x", size) + `"}`)
	}
	object, payload := text(1_500_000), text(8_000_000)
	t.run(ctx, func(k *keeper) {
		for n := range 4 {
			ev := t.Event(n)
			ev.Object, ev.Old = object, object
			t.wantAnswer(ctx, k, "an event of 3 MB", ev)
		}
		ev := t.Event(4)
		ev.Object, ev.Old, ev.Payload = nil, nil, payload
		t.wantAnswer(ctx, k,
			"an event of 8 MB (does it accept messages of 64 MiB? gRPC's default is 4)", ev)
	})
}

func (t *trial) integers(ctx context.Context) {
	if t.Integers == nil {
		t.result.NotChecked = "only a test of its own can see what became of a number " +
			"(handlertest.Options.Integers)"
		return
	}
	ev := t.Event(1)
	ev.Old = nil
	if len(ev.Payload) > 0 {
		ev.Payload = json.RawMessage(`{"integer":9007199254740993}`)
	} else {
		ev.Object = json.RawMessage(`{"integer":9007199254740993}`)
	}
	t.run(ctx, func(k *keeper) {
		if t.wantDone(ctx, k, "an event", ev) {
			if err := t.Integers(ev); err != nil {
				t.fail("%v", err)
			}
		}
	})
}

func (t *trial) cancel(ctx context.Context) {
	t.run(ctx, func(k *keeper) {
		for n := range 100 {
			ctx, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() { defer close(done); _, _ = k.handle(ctx, t.Event(n)) }()
			cancel()
			<-done
		}
		// A cancelled event may still be with the handler, and its object is not free then.
		t.wantDone(ctx, k, "an event after a hundred that were cancelled", t.Event(100))
	})
}
