package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// both is a rule with a handler and with actions of its own. It records what happens in order:
// events, the actions of answers, and own actions.
type both struct {
	mu       sync.Mutex
	all      []string
	answers  []handler.Action
	answer   func(handler.Event) error
	answered func(handler.Event) error // of the answer's actions
	acted    func(handler.Event) error // of the own actions
}

func (b *both) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, text)
}

func (b *both) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all = nil
	return all
}

func (b *both) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	b.note(fmt.Sprint("event ", ev.ID, " #", ev.Attempt))
	if b.answer != nil {
		if err := b.answer(ev); err != nil {
			return handler.Answer{}, err
		}
	}
	return handler.Answer{Actions: b.answers}, nil
}

func (b *both) actor(what string, do *func(handler.Event) error) Actor {
	return &actor{do: func(_ context.Context, ev *handler.Event, actions []handler.Action) error {
		b.note(fmt.Sprint(what, " ", actions[0].Reason, " #", ev.Attempt))
		if *do != nil {
			return (*do)(*ev)
		}
		return nil
	}}
}

func (b *both) start(t *testing.T, s *shelf, box *LetterBox) (*Lane, func()) {
	return b.startOwn(t, s, box, nil)
}

func (b *both) startOwn(t *testing.T, s *shelf, box *LetterBox, own Own) (*Lane, func()) {
	o := Options{Actor: b.actor("answer", &b.answered)}
	lane := preparer{actions: func(_ context.Context, d delta.Delta) ([]handler.Action, error) {
		return []handler.Action{{Reason: "of" + d.Object.ResourceVersion()}}, nil
	}}.lane(LaneOptions{Actor: b.actor("own", &b.acted), Own: own})
	if s != nil {
		o.Journal, lane.Store = s, s
	}
	d := New(Recipient{Handler: b, Retry: Retry{Attempts: 2}}, box, o)
	l := d.Lane("r", pods, lane)
	return l, start(t, d)
}

var errLater = errors.New("not now")

// failing returns a function that fails n times.
func failing(n int, err error) func(handler.Event) error {
	return func(handler.Event) error {
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

// Own actions follow the actions of the handler's answer. If they fail, they are tried again
// without the handler, more often than it may fail itself.
func TestOwnActionsFollowTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := NewLetterBox(LetterBoxOptions{})
		b := &both{answers: []handler.Action{{Reason: "A"}}, answer: failing(1, errLater), answered: failing(1, errLater), acted: failing(3, errLater)}
		l, _ := b.start(t, nil, box)
		l.Offer(added("web", "u", 1))
		pass(time.Minute)
		equal(t, "what happened", b.take(), []string{
			"event r/u/added/1 #1", "event r/u/added/1 #2", "answer A #2",
		})
		equal(t, "letters", len(box.List()), 1) // the handler has two attempts
		b.answered = failing(0, nil)
		l.Offer(updated("web", "u", 2))
		pass(time.Minute)
		equal(t, "what happened", b.take(), []string{
			"event r/u/updated/2 #1", "answer A #1", "own of2 #1", "own of2 #2", "own of2 #3", "own of2 #4",
		})
		equal(t, "letters", len(box.List()), 1)
	})
}

// An answer that failed is repeated without the handler, and then the own actions follow.
func TestOwnActionsFollowARepeatedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &both{answers: []handler.Action{{Reason: "A"}}, answered: failing(1, errLater)}
		l, _ := b.start(t, nil, NewLetterBox(LetterBoxOptions{}))
		l.Offer(added("web", "u", 1))
		pass(time.Minute)
		equal(t, "what happened", b.take(), []string{"event r/u/added/1 #1", "answer A #1", "answer A #2", "own of1 #2"})
	})
}

// What the handler rejects has no own actions. Own actions that fail for good make a dead letter
// that says so, and a retry of it begins with the handler.
func TestDeadLettersOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := NewLetterBox(LetterBoxOptions{})
		b := &both{answer: failing(1, handler.Reject(errors.New("no"))), acted: failing(1, handler.Reject(errors.New("no such field")))}
		l, _ := b.start(t, nil, box)
		l.Offer(added("web", "u", 1))
		pass(time.Second)
		equal(t, "what happened", b.take(), []string{"event r/u/added/1 #1"})
		l.Offer(added("db", "v", 2))
		pass(time.Second)
		equal(t, "what happened", b.take(), []string{"event r/v/added/2 #1", "own of2 #1"})
		list := box.List()
		equal(t, "letters", len(list), 2)
		equal(t, "reason", list[1].Reason, "the handler acknowledged the event, but the rule's own actions failed: rejected: no such field")
		if !l.Redrive(list[1]) {
			t.Fatal("the lane is closed")
		}
		pass(time.Second)
		equal(t, "what happened", b.take(), []string{"event r/v/added/2 #2", "own of2 #2"})
	})
}

// A newer change goes to the handler before it is acted upon, and takes over from one whose own
// actions fail.
func TestNewerChangesOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &both{acted: failing(1, errLater)}
		l, _ := b.start(t, nil, NewLetterBox(LetterBoxOptions{}))
		l.Offer(added("web", "u", 1))
		synctest.Wait()
		l.Offer(updated("web", "u", 2))
		pass(time.Minute)
		equal(t, "what happened", b.take(), []string{
			"event r/u/added/1 #1", "own of1 #1", "event r/u/added/2 #1", "own of2 #1",
		})
	})
}

// A change takes the place of own actions that were offered alone: the handler learns what it is.
func TestChangeOfOfferedActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &both{acted: failing(1, errLater)}
		l, _ := b.start(t, nil, NewLetterBox(LetterBoxOptions{}))
		l.OfferActions(synced("web", "u", 1, delta.Known).Delta)
		synctest.Wait()
		l.Offer(updated("web", "u", 2))
		pass(time.Minute)
		equal(t, "what happened", b.take(), []string{
			"own of1 #1", "event r/u/updated/2 #1", "own of2 #1",
		})
	})
}

// Own actions that were refused as outdated are made again, without the handler.
func TestOutdatedOwnActionsOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &both{acted: failing(2, fmt.Errorf("%w: changed", ErrStale))}
		l, _ := b.start(t, nil, NewLetterBox(LetterBoxOptions{}))
		l.Offer(added("web", "u", 1))
		pass(time.Minute)
		equal(t, "what happened", b.take(), []string{"event r/u/added/1 #1", "own of1 #1", "own of1 #2", "own of1 #3"})
	})
}

// While own actions are tried again, the acknowledgement is on disk: a restart does not ask the
// handler again. If the rule has lost its actions by then, the delivery is done.
func TestRestartAfterTheAcknowledgement(t *testing.T) {
	for _, acts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf(t)
			b := &both{answers: []handler.Action{{Reason: "A"}}, acted: failing(1, errLater)}
			l, stop := b.start(t, s, NewLetterBox(LetterBoxOptions{}))
			s.offer(l, added("web", "u", 1))
			synctest.Wait()
			stop()
			l.Close()
			s.write()
			equal(t, "what happened", b.take(), []string{"event r/u/added/1 #1", "answer A #1", "own of1 #1"})
			again := &both{}
			o := LaneOptions{Store: s}
			want := []string(nil)
			if acts {
				o.Actor = again.actor("own", &again.acted)
				o = preparer{actions: func(_ context.Context, d delta.Delta) ([]handler.Action, error) {
					return []handler.Action{{Reason: "again", Patch: json.RawMessage("{}")}}, nil
				}}.lane(o)
				want = []string{"own again #2"}
			}
			d := New(Recipient{Handler: again}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s})
			s.restore(d.Lane("r", pods, o))
			start(t, d)
			pass(time.Minute)
			equal(t, "what happened", again.take(), want)
			equal(t, "records", s.ids(), nil)
		})
	}
}

// While own actions wait for another attempt, the object goes by an action of the handler's answer.
// The handler does not receive that. The own actions go on. They are about an object that is gone,
// unless the response to the deletion comes so late that another attempt has succeeded before it.
func TestOwnDeletionWhileOwnActionsWait(t *testing.T) {
	for late, last := range map[bool]string{false: "own of2 #1", true: "own of1 #2"} {
		name := fmt.Sprint("late ", late)
		synctest.Test(t, func(t *testing.T) {
			w := newWrites()
			b := &both{answers: []handler.Action{{Reason: "A"}}, acted: failing(1, errLater)}
			l, _ := b.startOwn(t, nil, NewLetterBox(LetterBoxOptions{}), w)
			l.Offer(updated("web", "u", 1))
			synctest.Wait()
			w.begin("web")
			if !late {
				w.end("web", 2)
			}
			l.Offer(versioned(deleted("web", "u", 2)))
			if late {
				synctest.Wait()
				w.end("web", 2)
			}
			pass(time.Minute)
			equal(t, name, b.take(), []string{"event r/u/updated/1 #1", "answer A #1", "own of1 #1", last})
			// somebody else's deletion goes to the handler
			b.acted = failing(1, errLater)
			l.Offer(updated("db", "v", 1))
			synctest.Wait()
			l.Offer(versioned(deleted("db", "v", 12)))
			pass(time.Minute)
			equal(t, name, b.take(), []string{
				"event r/v/updated/1 #1", "answer A #1", "own of1 #1",
				"event r/v/deleted/12 #1", "answer A #1", "own of12 #1",
			})
		})
	}
}
