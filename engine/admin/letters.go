package admin

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
)

// ErrNotFound is wrapped by errors about a rule or dead letter that does not exist.
var ErrNotFound = errors.New("not found")

// errNotRestored is the error of requests for dead letters before Run has read the saved ones.
var errNotRestored = errors.New("the saved state is not loaded yet, " +
	"because the API server has not identified the cluster: try again when it can be reached")

// ErrStopping is the error of requests that come when nothing more is delivered, and perhaps
// nothing more is written.
var ErrStopping = errors.New("informd is stopping: try again when it has restarted")

// Letters returns the dead letters, the oldest first. It returns an error until Run has read the
// saved ones.
func (d *Desk) Letters() ([]delivery.Letter, error) {
	if !d.phase.Loaded.Load() {
		return nil, errNotRestored
	}
	return d.dead.List(), nil
}

// Letter returns a dead letter, or an error that wraps ErrNotFound.
func (d *Desk) Letter(id string) (delivery.Letter, error) {
	if !d.phase.Loaded.Load() {
		return delivery.Letter{}, errNotRestored
	}
	letter, ok := d.dead.Get(id)
	if !ok {
		return delivery.Letter{}, noLetter(id)
	}
	return letter, nil
}

func noLetter(id string) error { return fmt.Errorf("dead letter %q: %w", id, ErrNotFound) }

// RetryLetter delivers a dead letter again, as dispatch.Lane.Redrive does. If there is no such
// letter, the error wraps ErrNotFound. A letter that cannot be delivered stays where it is, for
// example because its rule is gone.
func (d *Desk) RetryLetter(id string) error {
	for {
		letter, err := d.Letter(id)
		if err != nil {
			return err
		}
		again, r, err := d.again(letter)
		if err != nil {
			return err
		}
		switch ok, err := d.redrive(r, again); {
		case ok || err != nil:
			return err
		case !r.Memory.Ended():
			return fmt.Errorf("dead letter %q: %w", id, ErrStopping)
		}
		// a Reload has just replaced the rule
	}
}

// again returns a letter as it is delivered once more, and the rule that does so.
func (d *Desk) again(letter delivery.Letter) (again delivery.Letter, r *live.Rule, err error) {
	id := letter.ID
	switch r = d.present.TargetOf(letter); {
	case r == nil:
		return again, nil, fmt.Errorf("dead letter %q: there is no rule %q any more: "+
			"drop the letter, or bring the rule back", id, letter.Rule)
	case r.Source.Resource != schema.GroupVersionResource(letter.Resource):
		was := object.ResourceName(schema.GroupVersionResource(letter.Resource))
		return again, nil, fmt.Errorf("dead letter %q: it holds an object of %s, "+
			"but rule %q is about %s now: drop it", id, was, letter.Rule, r.Resource())
	}
	again, err = r.Preparer.Again(letter)
	return again, r, err
}

// redrive has a rule deliver a letter once more. If ok is false without an error, the rule's lane
// is closed and the letter stays where it is.
func (d *Desk) redrive(r *live.Rule, again delivery.Letter) (ok bool, err error) {
	defer d.begin()()
	if d.phase.Ended.Load() {
		return false, fmt.Errorf("dead letter %q: %w", again.ID, ErrStopping)
	}
	letter, ok := d.dead.Take(again.ID)
	if !ok { // another request was quicker
		return false, noLetter(again.ID)
	}
	if !r.Memory.Lane().Redrive(again) {
		_, err := d.dead.Add(letter) // into its own place, so nothing is evicted
		return false, err
	}
	return true, nil
}

// DropLetter forgets a dead letter. If there is no such letter, the error wraps ErrNotFound.
func (d *Desk) DropLetter(id string) error {
	if _, err := d.Letter(id); err != nil {
		return err
	}
	defer d.begin()()
	if d.phase.Ended.Load() {
		return fmt.Errorf("dead letter %q: %w", id, ErrStopping)
	}
	if _, ok := d.dead.Take(id); !ok {
		return noLetter(id)
	}
	return nil
}

// SetPaused pauses or resumes a rule's deliveries: see dispatch.Lane.Pause. If there is no such
// rule, the error wraps ErrNotFound.
func (d *Desk) SetPaused(rule string, paused bool) error {
	for {
		r := d.present.Target(rule)
		if r == nil {
			return fmt.Errorf("rule %q: %w", rule, ErrNotFound)
		}
		if ok, err := d.pause(r, paused); ok || err != nil {
			return err
		}
		// a Reload has just replaced the rule by another one of that name
	}
}

// pause does the work of SetPaused. If ok is false without an error, the rule is gone.
func (d *Desk) pause(r *live.Rule, paused bool) (ok bool, err error) {
	defer d.begin()()
	if d.phase.Ended.Load() {
		return false, fmt.Errorf("rule %q: %w", r.Name, ErrStopping)
	}
	return r.Memory.Pause(paused), nil
}

// Written returns nil once a crash can no longer undo what RetryLetter, DropLetter, SetPaused and
// Resync have changed: it is on the disk, or there is no state that it could be kept in. It does
// not wait for a disk in trouble: then the error wraps state.ErrNotDurable.
func (d *Desk) Written(ctx context.Context) error {
	if d.store == nil {
		return nil
	}
	return d.store.Written(ctx)
}

// RetryRule tries now what waits for a retry of a rule, or of one object of it: NAMESPACE/NAME,
// NAME, or "" for all. It also evaluates the changes of these objects that were set aside, for all
// rules that miss them. It returns the number of objects. If there is no such rule, the error wraps
// ErrNotFound. If nothing of the object waits, it is a *NotWaitingError.
func (d *Desk) RetryRule(rule, object string) (n int, err error) {
	for {
		r := d.present.Target(rule)
		switch {
		case r == nil:
			return 0, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
		case d.phase.Ended.Load():
			return 0, fmt.Errorf("rule %q: %w", rule, ErrStopping)
		}
		if n := d.retryAsides(r, object); n > 0 {
			more, _ := retryNow(r.Memory.Lane(), rule, object) // there is something to retry
			return n + more, nil
		}
		n, err := retryNow(r.Memory.Lane(), rule, object)
		if n > 0 || !r.Memory.Ended() {
			return n, err
		}
		// a Reload has just replaced the rule by another one of that name
	}
}

// retryNow does the work of RetryRule.
func retryNow(lane *dispatch.Lane, rule, object string) (n int, err error) {
	if lane.Paused() {
		return 0, fmt.Errorf("rule %q is paused: resume it first", rule)
	}
	n = lane.RetryNow(func(key delta.Key) bool {
		return object == "" || object == key.Name || object == key.String()
	})
	if n > 0 || object == "" {
		return n, nil
	}
	failure := &NotWaitingError{Rule: rule, Object: object}
	for _, key := range lane.Delayed() {
		failure.Waiting = append(failure.Waiting, key.String())
	}
	return 0, failure
}

// NotWaitingError says that nothing of an object waits for a retry of a rule.
type NotWaitingError struct {
	Rule, Object string
	Waiting      []string // the objects that do wait
}

// Error implements error.
func (e *NotWaitingError) Error() string {
	return fmt.Sprintf("nothing of %q waits for a retry of rule %q", e.Object, e.Rule)
}
