package action

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/informd/informd/plugins/handler"
)

// stop is a verb of rules' own actions that changes nothing: what follows is performed only if
// nothing before it has failed. Its name is the label of the step that follows. No handler can use
// it.
const stop = "break"

// Step holds what one action of a rule's manifest, or its prune, asks for. Its actions are
// independent of each other.
type Step struct {
	Label   string // for error texts, as actions[0]; "" for a prune
	Actions []handler.Action
}

// Join makes one answer of a rule's own steps. A step is performed once all before it have
// succeeded. A prune also is if they failed only because objects are somebody else's: what the rule
// applies and does not apply any more is known all the same.
func Join(steps []Step) (actions []handler.Action) {
	for _, step := range steps {
		actions = append(actions, handler.Action{Verb: stop, Name: step.Label})
		actions = append(actions, step.Actions...)
	}
	return actions
}

// IsBreak reports whether a stands before a step and changes nothing itself.
func IsBreak(a handler.Action) bool { return a.Verb == stop }

// doSteps performs a rule's own actions, as Join made them. What has failed for good is not tried
// again with the same delivery.
func (x *Executor) doSteps(
	ctx context.Context, by By, ev *handler.Event, actions []handler.Action,
) error {
	var failed failures
	var latest string
	cause, _ := x.writes.causeOf(ctx, ev)
	x.hopeless.begin(ev.ID, ev.Attempt)
	number, label, theirs, skips, stops, skipsPrune := 0, "", 0, false, false, false
	for i, a := range actions {
		if IsBreak(a) {
			label, skips = a.Name, failed.count > 0
			continue
		}
		if a.Verb == prune {
			skips = failed.count > theirs
			skipsPrune = skipsPrune || skips || stops
		} else {
			number++
		}
		if skips || stops {
			continue
		}
		err := x.hopeless.of(ev.ID, a)
		if err == nil {
			err = x.doOwn(ctx, task{
				Executor: x, by: by, event: ev, cause: cause, action: a, number: number, label: label,
				latest: &latest, prunes: isPruned(a, actions),
			}, actions[:i])
		}
		if err == nil {
			continue
		}
		if isFinal(err) {
			x.hopeless.add(ev.ID, ev.Attempt, a, err)
		}
		failed.add(err)
		if errors.Is(err, errNotOurs) {
			theirs++
		}
		stops = ctx.Err() != nil || inTrouble(err)
	}
	err := failed.of(number, "actions")
	if err != nil && skipsPrune {
		err = fmt.Errorf("%w; nothing was pruned", err)
	}
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

// maxHopeless bounds the failures for good that are remembered. Beyond it, hopeless forgets those
// of one delivery, and the Executor tries its actions once more.
const maxHopeless = 4096

// hopeless knows which actions of a delivery have failed for good, while others are still tried. It
// is safe for concurrent use. Its zero value is ready.
type hopeless struct {
	mu    sync.Mutex
	at    map[string]lost // by the delivery's id; guarded by mu
	count int             // failures of all deliveries; guarded by mu
}

// lost holds the failures of one delivery.
type lost struct {
	attempt int // the last one that was begun
	why     map[print]error
}

// print identifies an action by its content.
type print [sha256.Size]byte

func printOf(a handler.Action) (p print, ok bool) {
	text, err := json.Marshal(a)
	return sha256.Sum256(text), err == nil
}

// begin notes an attempt. If it does not follow the last one, the delivery may have been a dead
// letter in between, and somebody may have mended what failed. Then begin forgets its failures.
func (h *hopeless) begin(delivery string, attempt int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.at[delivery]
	switch {
	case !ok:
	case attempt > known.attempt+1:
		h.drop(delivery)
	default:
		known.attempt = attempt
		h.at[delivery] = known
	}
}

// of returns why the action failed for good, or nil.
func (h *hopeless) of(delivery string, a handler.Action) error {
	h.mu.Lock()
	_, ok := h.at[delivery]
	h.mu.Unlock()
	if !ok {
		return nil
	}
	p, _ := printOf(a)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at[delivery].why[p]
}

func (h *hopeless) add(delivery string, attempt int, a handler.Action, err error) {
	p, ok := printOf(a)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at[delivery].why[p] != nil {
		return
	}
	for other := range h.at {
		if h.count < maxHopeless {
			break
		}
		h.drop(other)
	}
	if h.at == nil {
		h.at = make(map[string]lost)
	}
	if _, ok := h.at[delivery]; !ok {
		h.at[delivery] = lost{attempt, make(map[print]error)}
	}
	h.at[delivery].why[p] = err
	h.count++
}

func (h *hopeless) forget(delivery string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(delivery)
}

// drop forgets a delivery. The caller holds mu.
func (h *hopeless) drop(delivery string) {
	h.count -= len(h.at[delivery].why)
	delete(h.at, delivery)
}
