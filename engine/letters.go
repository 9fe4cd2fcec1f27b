package engine

import (
	"bytes"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

// ErrNotFound is what errors wrap when there is no rule or dead letter of that name.
var ErrNotFound = errors.New("not found")

// errNotTaken is about dead letters while those that were kept have not been read.
var errNotTaken = errors.New("the saved state is not read yet: the API server has not said which cluster it is; try again when it can be reached")

// Letters are the dead letters, the oldest first. It is an error to ask before Run has taken up those that were kept.
func (e *Engine) Letters() ([]dispatch.Letter, error) {
	if !e.hasLetters() {
		return nil, errNotTaken
	}
	return e.dead.List()
}

// Letter is one of them, or an error that wraps ErrNotFound.
func (e *Engine) Letter(id string) (dispatch.Letter, error) {
	if !e.hasLetters() {
		return dispatch.Letter{}, errNotTaken
	}
	letter, ok := e.dead.Get(id)
	if !ok {
		return dispatch.Letter{}, fmt.Errorf("dead letter %q: %w", id, ErrNotFound)
	}
	return letter, nil
}

func (e *Engine) hasLetters() bool { return e.store == nil || e.restored.Load() }

// RetryLetter has a dead letter delivered again, as dispatch.Lane.Redrive does. A letter that is not there is an error
// that wraps ErrNotFound; one that cannot be delivered, as its rule is gone, stays where it is.
func (e *Engine) RetryLetter(id string) error {
	there, err := e.Letter(id)
	if err != nil {
		return err
	}
	r := e.rule(there.Rule)
	switch {
	case r == nil:
		return fmt.Errorf("dead letter %q: there is no rule %q any more: drop the letter, or bring the rule back", id, there.Rule)
	case r.Source.Resource != schema.GroupVersionResource(there.Resource):
		return fmt.Errorf("dead letter %q: it is of %s, and rule %q is about %s now: drop it", id,
			resourceName(schema.GroupVersionResource(there.Resource)), there.Rule, r.resource())
	case r.isSecret() && isIdentity(there.Match.Delta.Object) && !r.isFresh(there.Key):
		return fmt.Errorf("dead letter %q: the source has not caught up with the server, and secrets are delivered as they are: try again", id)
	case r.lacksPayload(there) && !r.isFresh(there.Key):
		return fmt.Errorf("dead letter %q: the sources have not caught up with the server, and of the secrets that rule %q looks up nothing was kept: try again", id, there.Rule)
	case (len(r.Attached) > 0 || r.Actions != nil) && !r.isFresh(there.Key):
		return fmt.Errorf("dead letter %q: the sources have not caught up with the server, and what rule %q attaches or does is made of them: try again", id, there.Rule)
	}
	match := there.Match
	if r.Actions != nil {
		var ok bool
		if match, ok = r.asItIs(match.Delta); !ok {
			return fmt.Errorf("dead letter %q: rule %q does nothing about the object as it is by now: drop it", id, there.Rule)
		}
	}
	defer e.begin()()
	letter, err := e.takeLetter(id)
	if err != nil {
		return err
	}
	letter.Match = match
	if r.isSecret() && isIdentity(letter.Match.Delta.Object) { // it is from before a restart
		letter.Match.Delta, letter.Match.Payload = r.refill(letter.Match.Delta)
	}
	if r.lacksPayload(letter) {
		letter.Match.Payload = r.anew(letter.Match.Delta)
	}
	if !r.lane.Redrive(letter) {
		return errors.Join(fmt.Errorf("dead letter %q: informd is about to end: try again when it has started", id), e.dead.Add(there))
	}
	return nil
}

// asItIs is what a rule that acts itself has to do about a change of long ago: about the object as it is by now, lest what it has
// applied since becomes as it was then; and if there is none, or it is outside, about a deletion. If ok is false it is nothing: one
// that is there again has been told of since, and nothing that was applied for it is to be pruned.
func (r *runningRule) asItIs(d delta.Delta) (match rule.Match, ok bool) {
	decoder := object.NewDecoder(r.reads)
	now, inside := r.view.Get(d.Object.Namespace(), d.Object.Name())
	inside = inside && r.isInside(now, &lookup{decoder: decoder, old: decoder, rule: r})
	switch {
	case inside && d.Type != delta.Deleted && now.UID() == d.Object.UID():
		return r.renew(d)
	case inside:
		return rule.Match{}, false
	}
	return rule.Match{Delta: delta.Delta{Type: delta.Deleted, Object: d.Object}}, r.Events.Has(delta.Deleted)
}

// lacksPayload tells whether the payload of a letter was not kept over a restart.
func (r *runningRule) lacksPayload(l dispatch.Letter) bool {
	return r.reveals && bytes.Equal(l.Match.Payload, notKept)
}

// DropLetter forgets a dead letter. One that is not there is an error that wraps ErrNotFound.
func (e *Engine) DropLetter(id string) error {
	if _, err := e.Letter(id); err != nil {
		return err
	}
	defer e.begin()()
	_, err := e.takeLetter(id)
	return err
}

func (e *Engine) takeLetter(id string) (dispatch.Letter, error) {
	letter, ok, err := e.dead.Take(id)
	if err == nil && !ok {
		err = ErrNotFound
	}
	if err != nil {
		return dispatch.Letter{}, fmt.Errorf("dead letter %q: %w", id, err)
	}
	return letter, nil
}

// SetPaused has a rule's deliveries wait, or no longer: see dispatch.Lane.Pause. If there is no such rule it is an error
// that wraps ErrNotFound.
func (e *Engine) SetPaused(rule string, paused bool) error {
	r := e.rule(rule)
	if r == nil {
		return fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	defer e.begin()()
	r.memory.pause(paused, r.lane)
	return nil
}

// rule is nil if there is none of that name.
func (e *Engine) rule(name string) *runningRule {
	for _, r := range e.rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}
