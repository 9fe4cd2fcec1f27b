package action

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"

	"github.com/informd/informd/plugins/handler"
)

// stop is a verb of rules' own actions that changes nothing: what follows is performed only if
// nothing before it has failed. No handler can use it.
const stop = "break"

// Join makes one answer of a rule's own steps. The actions of a step are independent of each other.
// A step is performed once all before it have succeeded.
func Join(steps [][]handler.Action) (actions []handler.Action) {
	for i, step := range steps {
		if i > 0 {
			actions = append(actions, handler.Action{Verb: stop})
		}
		actions = append(actions, step...)
	}
	return actions
}

// IsBreak reports whether a stands between two steps and changes nothing itself.
func IsBreak(a handler.Action) bool { return a.Verb == stop }

// doSteps performs a rule's own actions, as Join made them. What has failed for good is not tried
// again with the same delivery.
func (x *Executor) doSteps(
	ctx context.Context, by By, ev *handler.Event, actions []handler.Action,
) error {
	var failed failures
	var latest string
	cause, _ := x.writes.causeOf(ctx, ev)
	number, skips := 0, false
	for i, a := range actions {
		if IsBreak(a) {
			skips = skips || failed.count > 0
			continue
		}
		if a.Verb != prune {
			number++
		}
		if skips {
			continue
		}
		err := x.hopeless.of(ev.ID, a)
		if err == nil {
			err = x.doOwn(ctx, task{
				Executor: x, by: by, event: ev, cause: cause, action: a, number: number,
				latest: &latest, prunes: isPruned(a, actions),
			}, actions[:i])
		}
		if err == nil {
			continue
		}
		if isFinal(err) {
			x.hopeless.add(ev.ID, a, err)
		}
		failed.add(err)
		skips = ctx.Err() != nil || inTrouble(err)
	}
	err := failed.of(number, "actions")
	if err == nil || isFinal(err) {
		x.hopeless.forget(ev.ID)
	}
	return err
}

func (x *Executor) doOwn(ctx context.Context, t task, before []handler.Action) error {
	if t.action.Verb == prune {
		return x.prune(ctx, t, before)
	}
	return x.run(ctx, t)
}

// isFinal reports whether no try of the same action will succeed.
func isFinal(err error) bool { return errors.Is(err, handler.ErrReject) }

// maxHopeless bounds the deliveries whose failures for good are remembered. Beyond it, one is
// forgotten, and its actions are tried once more.
const maxHopeless = 1024

// hopeless knows which actions of a delivery have failed for good, while others are still tried. It
// is safe for concurrent use. Its zero value is ready.
type hopeless struct {
	mu sync.Mutex
	at map[string]map[print]error // by the delivery's id; guarded by mu
}

// print identifies an action by its content.
type print [sha256.Size]byte

func printOf(a handler.Action) (p print, ok bool) {
	text, err := json.Marshal(a)
	return sha256.Sum256(text), err == nil
}

// of returns why the action failed for good, or nil.
func (h *hopeless) of(delivery string, a handler.Action) error {
	h.mu.Lock()
	known := h.at[delivery]
	h.mu.Unlock()
	if known == nil {
		return nil
	}
	p, _ := printOf(a)
	h.mu.Lock()
	defer h.mu.Unlock()
	return known[p]
}

func (h *hopeless) add(delivery string, a handler.Action, err error) {
	p, ok := printOf(a)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at[delivery] == nil {
		makeRoom(&h.at, maxHopeless)
		h.at[delivery] = make(map[print]error)
	}
	h.at[delivery][p] = err
}

func (h *hopeless) forget(delivery string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.at, delivery)
}
