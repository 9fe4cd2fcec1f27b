package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// patch is an answer that patches the event's own object.
func patch(ev handler.Event) []handler.Action {
	return []handler.Action{{
		Verb: handler.ActionPatch, Resource: ev.Resource, Namespace: ev.Namespace, Name: ev.Name, UID: ev.UID,
		Patch: json.RawMessage(`{"metadata":{"labels":{"seen":"<` + ev.ResourceVersion + `>"}}}`),
	}}
}

// patching is a handler that answers with patch, and records its events.
func patching(r *recorder) handler.Handler {
	return handler.Func(func(ctx context.Context, ev handler.Event) (handler.Answer, error) {
		if _, err := r.Handle(ctx, ev); err != nil {
			return handler.Answer{}, err
		}
		return handler.Answer{Actions: patch(ev)}, nil
	})
}

// deeds is an Actor that records each action, as the event's id, the attempt and the patch, and
// fails as a test says.
type deeds struct {
	mu   sync.Mutex
	all  []string
	fail []error // errors of the next calls
}

func (a *deeds) do(_ context.Context, ev *handler.Event, actions []handler.Action) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what := make([]string, 0, len(actions))
	for _, action := range actions {
		what = append(what, string(action.Patch))
	}
	a.all = append(a.all, fmt.Sprint(ev.ID, " #", ev.Attempt, " ", strings.Join(what, " ")))
	if len(a.fail) > 0 {
		err, a.fail = a.fail[0], a.fail[1:]
	}
	return err
}

// list returns the actions that were performed, without the patches' frame.
func (a *deeds) list() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, deed := range a.all {
		all = append(all, strings.NewReplacer(`{"metadata":{"labels":{"seen":"`, "", `"}}}`, "").Replace(deed))
	}
	return all
}

// The actions are on disk before the first is performed, and gone when they are done.
func TestAnswerIsWrittenBeforeItsFirstAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		var h recorder
		done := 0
		a := &actor{do: func(_ context.Context, ev *handler.Event, actions []handler.Action) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, f := range s.written {
				kept, err := f.Value.Answer.Read()
				equal(t, "what is on disk", kept, patch(h.events[0]))
				equal(t, "error", err, nil)
				equal(t, "attempts", f.Value.Attempts, 1)
				done++
			}
			return nil
		}}
		d := New(Recipient{Handler: patching(&h)}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s, Actor: a})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		start(t, d)
		s.offer(l, added("web", "u", 1))
		synctest.Wait()
		equal(t, "done", done, 1)
		equal(t, "records", s.ids(), nil)
	})
}

// After a crash between the record and the acknowledgement, the same actions are performed again,
// whatever the handler would say by then.
func TestCrashAmidActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		var h, again recorder
		hangs := &actor{do: func(ctx context.Context, _ *handler.Event, _ []handler.Action) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		d := New(Recipient{Handler: patching(&h)}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s, Actor: hangs})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		stop := start(t, d)
		s.offer(l, added("web", "u", 1))
		synctest.Wait()
		next := s.kill()
		l.Close()
		stop()

		var a deeds
		a.fail = []error{errors.New("the API server is away")}
		d = New(Recipient{Handler: patching(&again)}, NewLetterBox(LetterBoxOptions{}), Options{Journal: next, Actor: &actor{do: a.do}})
		l = d.Lane("r", pods, LaneOptions{Store: next})
		next.restore(l)
		start(t, d)
		pass(time.Minute)
		equal(t, "done", a.list(), []string{"r/u/added/1 #2 <1>", "r/u/added/1 #3 <1>"})
		equal(t, "asked again", again.ids(), nil)
		equal(t, "records", next.ids(), nil)
	})
}

// If actions fail temporarily, the dispatcher does not ask the handler again unless the object has
// changed since.
func TestAnswerIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("the API server is away")
		a := deeds{fail: []error{away, away, nil, away}}
		var h recorder
		d := New(Recipient{Handler: patching(&h)}, NewLetterBox(LetterBoxOptions{}), Options{Actor: &actor{do: a.do}})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		l.Offer(added("web", "u", 1))
		pass(time.Minute)
		equal(t, "done", a.list(), []string{"r/u/added/1 #1 <1>", "r/u/added/1 #2 <1>", "r/u/added/1 #3 <1>"})
		l.Offer(updated("web", "u", 2))
		synctest.Wait()
		l.Offer(updated("web", "u", 3))
		pass(time.Minute)
		equal(t, "done then", a.list()[3:], []string{"r/u/updated/2 #1 <2>", "r/u/updated/3 #1 <3>"})
		equal(t, "asked", h.ids(), []string{"r/u/added/1", "r/u/updated/2", "r/u/updated/3"})
	})
}

// An answer that was made of an older object is nobody's failure. The dispatcher soon asks the
// handler again.
func TestStaleActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflict := fmt.Errorf("conflict: %w", ErrStale)
		a := deeds{fail: []error{conflict, conflict, conflict}}
		var h recorder
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: patching(&h), Retry: Retry{Attempts: 1}}, dead, Options{Actor: &actor{do: a.do}})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		l.Offer(added("web", "u", 1))
		pass(350 * time.Millisecond) // 50, 100 and 200 ms
		equal(t, "asked", h.ids(), []string{"r/u/added/1", "r/u/added/1 #2", "r/u/added/1 #3", "r/u/added/1 #4"})
		equal(t, "dead", letters(dead), nil)
		equal(t, "waiting", l.Stats().Waiting+l.Stats().InFlight, 0)
	})
}

// The rule does not fight for ever over an object that has changed in a way that it does not
// select. The handler sees the object as it is, or nothing more.
func TestRenew(t *testing.T) {
	for _, selected := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			there := 1
			a := &actor{do: func(_ context.Context, ev *handler.Event, _ []handler.Action) error {
				if ev.ResourceVersion != fmt.Sprint(there) {
					return ErrStale
				}
				return nil
			}}
			var h recorder
			dead := NewLetterBox(LetterBoxOptions{})
			d := New(Recipient{Handler: patching(&h)}, dead, Options{Actor: a})
			l := d.Lane("r", pods, preparer{renew: func(d delta.Delta) (rule.Match, bool) {
				d.Object = pod("web", "u", there)
				return rule.Match{Delta: d}, selected
			}}.lane(LaneOptions{}))
			start(t, d)
			there = 5
			l.Offer(added("web", "u", 1))
			pass(time.Hour)
			want := []string{"r/u/added/1", "r/u/added/1 #2", "r/u/added/5"}
			if !selected {
				want = want[:2]
			}
			equal(t, "asked", h.ids(), want)
			equal(t, "dead", letters(dead), nil)
			equal(t, "waiting", l.Stats().Waiting+l.Stats().InFlight, 0)
		})
	}
}

// Changes that came while the rule waited for another source are undecided. If a delivery is
// refused because of one, it takes that in. Nobody else would report the current state, because
// something waits.
func TestStaleBeforeUndecided(t *testing.T) {
	for _, every := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := &actor{do: func(_ context.Context, ev *handler.Event, _ []handler.Action) error {
				if ev.ResourceVersion != "4" {
					return ErrStale
				}
				return nil
			}}
			var h recorder
			dead := NewLetterBox(LetterBoxOptions{})
			d := New(Recipient{Handler: patching(&h)}, dead, Options{Actor: a})
			l := d.Lane("r", pods, preparer{decide: func(d delta.Delta) (rule.Match, bool) {
				return rule.Match{Delta: d, Payload: json.RawMessage(`"decided"`)}, true
			}, remerge: func(delta.Delta) (json.RawMessage, error) { return json.RawMessage(`"merged"`), nil }, renew: func(d delta.Delta) (rule.Match, bool) {
				return rule.Match{Delta: d, Payload: json.RawMessage(`"renewed"`)}, true
			}}.lane(LaneOptions{Every: every}))
			l.Hold(true)
			start(t, d)
			l.Offer(added("web", "u", 1)) // as if from another run
			for v := 2; v < 5; v++ {
				l.Offer(undecided(updated("web", "u", v)))
			}
			l.Hold(false)
			pass(time.Minute)
			want := []string{"r/u/added/1", "r/u/added/4"}
			payload := `"merged"`
			if every { // the second refusal shortens it
				want, payload = []string{"r/u/added/1", "r/u/added/1 #2", "r/u/added/4"}, `"renewed"`
			}
			equal(t, "asked", h.ids(), want)
			equal(t, "payload", string(h.events[len(h.events)-1].Payload), payload)
			equal(t, "dead", letters(dead), nil)
			equal(t, "waiting", l.Stats().Waiting+l.Stats().InFlight, 0)
		})
	}
}

// Under every, a delivery that is refused because of later changes makes way for them. It merges
// with those in memory, and is dropped if they are still on disk. Nothing newer comes before it.
func TestStaleUnderEvery(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := &actor{do: func(_ context.Context, ev *handler.Event, _ []handler.Action) error {
				if ev.ResourceVersion != "3" {
					return ErrStale
				}
				return nil
			}}
			var h recorder
			s := newShelf(t)
			begin := func() {
				d := New(Recipient{Handler: patching(&h)}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s, Actor: a})
				l := d.Lane("r", pods, preparer{renew: func(d delta.Delta) (rule.Match, bool) {
					d.Object = pod("web", "u", 3)
					return rule.Match{Delta: d}, true
				}}.lane(LaneOptions{Store: s, Every: true}))
				s.restore(l)
				if !restarted {
					s.offer(l, updated("web", "u", 1), updated("web", "u", 2), updated("web", "u", 3))
				}
				start(t, d)
			}
			if restarted {
				for n := range 3 {
					m := updated("web", "u", n+1)
					s.written[uint64(1<<62+n)] = &filed{m.Delta.Key(), record{Value: delivery.Delivery{Delta: m.Delta}}}
				}
			}
			begin()
			pass(time.Hour)
			want := []string{"r/u/updated/1", "r/u/updated/1 #2", "r/u/updated/3"}
			if restarted {
				want = []string{"r/u/updated/1", "r/u/updated/1 #2", "r/u/updated/2", "r/u/updated/2 #2", "r/u/updated/3"}
			}
			equal(t, "asked", h.ids(), want)
			equal(t, "records", s.ids(), nil)
		})
	}
}

// Dead letters of one object are delivered again unchanged, and nothing merges with them. If the
// state of the object refuses one, it is remade from the current state, whatever waits behind it.
// Otherwise it would hold up its object for ever.
func TestStaleLetters(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := &actor{do: func(_ context.Context, ev *handler.Event, _ []handler.Action) error {
				if ev.ResourceVersion != "7" {
					return ErrStale
				}
				return nil
			}}
			var h recorder
			s := newShelf(t)
			d := New(Recipient{Handler: patching(&h)}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s, Actor: a})
			l := d.Lane("r", pods, preparer{renew: func(d delta.Delta) (rule.Match, bool) {
				d.Object = pod("web", "u", 7)
				return rule.Match{Delta: d}, true
			}}.lane(LaneOptions{Store: s}))
			letters := []rule.Match{added("web", "u", 1), updated("web", "u", 2)}
			if restarted {
				for n, m := range letters {
					s.written[uint64(n+1)] = &filed{m.Delta.Key(), record{Value: delivery.Delivery{Delta: m.Delta, Attempts: 1}, Redriven: true, Sent: true}}
				}
			}
			s.restore(l)
			if !restarted {
				for _, m := range letters {
					s.Begin()
					l.Redrive(delivery.Letter{Delta: m.Delta, Payload: m.Payload, Attempts: 1})
					s.End()
				}
			}
			s.offer(l, updated("web", "u", 7))
			start(t, d)
			pass(time.Hour)
			equal(t, "asked", h.ids(), []string{
				"r/u/added/1 #2", "r/u/added/1 #3", "r/u/added/7",
				"r/u/updated/2 #2", "r/u/updated/2 #3", "r/u/updated/7", "r/u/updated/7",
			})
			equal(t, "records", s.ids(), nil)
			equal(t, "waiting", l.Stats().Waiting+l.Stats().InFlight, 0)
		})
	}
}

// Nothing that may be a secret is recorded. After a crash the dispatcher asks the handler again.
func TestAnswersWithSecretsAreNotRecorded(t *testing.T) {
	for _, test := range []struct {
		name   string
		lane   LaneOptions
		action handler.Action
	}{
		{"the rule sees secrets", preparer{secret: func() bool { return true }}.lane(LaneOptions{}), handler.Action{Verb: handler.ActionApply, Resource: pods, Object: []byte(`"hunter2"`)}},
		{"an action is on a secret", LaneOptions{}, handler.Action{Verb: handler.ActionApply, Resource: delivery.Secrets, Object: []byte(`"hunter2"`)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				asked := 0
				h := handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
					asked++
					return handler.Answer{Actions: []handler.Action{{Verb: handler.ActionDelete, Resource: pods, Name: "web"}, test.action}}, nil
				})
				tried := 0
				a := &actor{do: func(ctx context.Context, _ *handler.Event, actions []handler.Action) error {
					equal(t, "actions", actions[1], test.action)
					if tried++; tried == 3 {
						<-ctx.Done()
					}
					return errors.New("the API server is away")
				}}
				o := test.lane
				o.Store = s
				d := New(Recipient{Handler: h}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s, Actor: a})
				l := d.Lane("r", pods, o)
				stop := start(t, d)
				s.offer(l, added("web", "u", 1))
				for range 10 {
					pass(time.Second)
					s.write()
					for _, w := range s.all() {
						equal(t, "on disk", w.Value.Answer.Record(), nil)
					}
				}
				equal(t, "tried", tried, 3)
				equal(t, "asked: in memory it is kept", asked, 1)
				next := s.kill()
				l.Close()
				stop()

				o.Store = next
				d = New(Recipient{Handler: h}, NewLetterBox(LetterBoxOptions{}), Options{Journal: next, Actor: a})
				l = d.Lane("r", pods, o)
				next.restore(l)
				start(t, d)
				pass(time.Second)
				equal(t, "asked after the crash", asked, 2)
			})
		})
	}
}

// An answer is refused as a whole, before any of it is recorded or performed.
func TestRefusedAnswers(t *testing.T) {
	large := make(json.RawMessage, maxAnswer)
	for _, test := range []struct {
		name    string
		actions []handler.Action
		check   error
		reason  string
	}{
		{"not allowed", patch(handler.Event{}), handler.Reject(errors.New("patch of v1/pods is not allowed")), "rejected: patch of v1/pods is not allowed"},
		{"too large", []handler.Action{{Object: large}}, nil, "rejected: the answer's actions have 8388864 bytes, more than 8388608"},
		{"not JSON", []handler.Action{{Object: []byte("hunter2")}}, nil, "rejected: an action of the answer is not valid JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				dead := NewLetterBox(LetterBoxOptions{})
				a := &actor{
					check: func(*handler.Event, []handler.Action) error { return test.check },
					do: func(context.Context, *handler.Event, []handler.Action) error {
						t.Error("something was done")
						return nil
					},
				}
				h := handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
					return handler.Answer{Actions: test.actions}, nil
				})
				d := New(Recipient{Handler: h}, dead, Options{Journal: s, Actor: a})
				l := d.Lane("r", pods, LaneOptions{Store: s})
				start(t, d)
				s.offer(l, added("web", "u", 1))
				synctest.Wait()
				equal(t, "dead", letters(dead), []string{"r/u/added/1: " + test.reason})
				equal(t, "records", s.ids(), nil)
			})
		})
	}
}

// The dispatcher asks the handler again if recorded actions are no longer allowed, cannot be read,
// or have no Actor any more.
func TestUnusableRecordedAnswer(t *testing.T) {
	good, err := (&Lane{opts: LaneOptions{Store: newShelf(t)}}).answer(patch(handler.Event{Name: "old"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		text   json.RawMessage
		denied bool
		actor  bool
	}{
		{"denied", good.Text, true, true},
		{"damaged", json.RawMessage(`[{"Verb":`), false, true},
		{"of another form", json.RawMessage(`{"Verb":7}`), false, true},
		{"nobody acts", good.Text, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				m := added("web", "u", 1)
				s.written[1<<62] = &filed{m.Delta.Key(), record{Value: delivery.Delivery{Delta: m.Delta, Answer: delivery.Recorded(test.text), Attempts: 1}, Sent: true}}
				var a deeds
				o := Options{Journal: s}
				if test.actor {
					o.Actor = &actor{do: a.do, check: func(_ *handler.Event, actions []handler.Action) error {
						if test.denied && actions[0].Name == "old" {
							return handler.ErrReject
						}
						return nil
					}}
				}
				var h recorder
				dead := NewLetterBox(LetterBoxOptions{})
				d := New(Recipient{Handler: patching(&h)}, dead, o)
				s.restore(d.Lane("r", pods, LaneOptions{Store: s}))
				start(t, d)
				synctest.Wait()
				equal(t, "asked", h.ids(), []string{"r/u/added/1 #2"})
				if test.actor {
					equal(t, "done", a.list(), []string{"r/u/added/1 #2 <1>"})
					equal(t, "dead", letters(dead), nil)
				}
				equal(t, "records", s.ids(), nil)
			})
		})
	}
}

// A store in trouble does not stop automation, but the log says so.
func TestActionsWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.failing = true
		var log bytes.Buffer
		var a deeds
		var h recorder
		d := New(Recipient{Handler: patching(&h)}, NewLetterBox(LetterBoxOptions{}), Options{
			Journal: s, Actor: &actor{do: a.do}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		start(t, d)
		s.offer(l, added("web", "u", 1), added("db", "v", 1))
		synctest.Wait()
		equal(t, "done", len(a.list()), 2)
		equal(t, "lines", strings.Count(log.String(), "without a record of them"), 1)
		equal(t, "reason", strings.Contains(log.String(), "input/output error"), true)
	})
}

// A lane that makes its actions itself calls no handler. It makes them again whenever they could
// not be performed.
func TestLaneActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := deeds{fail: []error{errors.New("the API server is away"), ErrStale}}
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Name: "none"}, dead, Options{Actor: &actor{do: a.do}})
		made := 0
		var results []any // of the next calls: an error, or a number of actions
		l := d.Lane("r", pods, preparer{actions: func(_ context.Context, d delta.Delta) ([]handler.Action, error) {
			made++
			if len(results) > 0 {
				next := results[0]
				results = results[1:]
				switch next := next.(type) {
				case error:
					return nil, next
				case int:
					return slices.Repeat([]handler.Action{{}}, next), nil
				}
				panic("oops")
			}
			return []handler.Action{{Patch: fmt.Append(nil, d.Object.Name(), made)}}, nil
		}}.lane(LaneOptions{}))
		start(t, d)
		l.Offer(added("web", "u", 1))
		pass(time.Minute)
		equal(t, "done", a.list(), []string{"r/u/added/1 #1 web1", "r/u/added/1 #2 web2", "r/u/added/1 #3 web3"})
		for _, test := range []struct {
			results []any
			done    int
			dead    []string
		}{
			{[]any{errors.New("a list failed"), "a panic"}, 1, nil},
			{[]any{0}, 0, nil},
			{[]any{maxActions + 1}, 1, nil}, // which is no answer of a handler
			{[]any{handler.Reject(errors.New("nil in a name"))}, 0, []string{"r/u/added/1: rejected: nil in a name"}},
		} {
			results = test.results
			before := len(a.list())
			l.Offer(added("web", "u", 1))
			pass(time.Minute)
			equal(t, "done", len(a.list())-before, test.done)
			equal(t, "dead", letters(dead), test.dead)
			_, _ = dead.Take("r/u/added/1")
		}
	})
}

// A delayed event has not been attempted. It merges with later changes, undone changes are never
// delivered, and each version of an object waits once.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		h := recorder{answer: func(context.Context, handler.Event) error {
			if fails.Load() {
				return errors.New("down")
			}
			return nil
		}}
		var mu sync.Mutex
		var asked []string
		a := &actor{delay: func(ev *handler.Event) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, ev.ID)
			if ev.Name == "quick" {
				return 0
			}
			return time.Minute
		}}
		d := New(Recipient{Handler: &h, Retry: Retry{MaxBackoff: time.Second}}, NewLetterBox(LetterBoxOptions{}), Options{Actor: a})
		l := d.Lane("r", pods, LaneOptions{Acts: true})
		start(t, d)
		l.Offer(added("slow", "s", 1))
		l.Offer(added("gone", "g", 1))
		l.Offer(added("quick", "q", 1))
		synctest.Wait()
		equal(t, "others go on", h.ids(), []string{"r/q/added/1"})
		equal(t, "delayed", l.Stats().Delayed, 3)
		equal(t, "in flight", d.InFlight(), 0)
		l.Offer(deleted("gone", "g", 2))
		equal(t, "what was never heard of", l.Stats().Delayed, 2)
		l.Offer(updated("slow", "s", 2))
		fails.Store(false)
		pass(65 * time.Second)
		slices.Sort(asked)
		equal(t, "asked", asked, []string{"r/g/added/1", "r/q/added/1", "r/s/added/1", "r/s/added/2"})
		fails.Store(true)
		// the merged event's delay is over, and its first attempt
		pass(55*time.Second + 500*time.Millisecond)
		fails.Store(false)
		pass(2 * time.Second)
		equal(t, "events", h.ids(), []string{"r/q/added/1", "r/q/added/1 #2", "r/s/added/2", "r/s/added/2 #2"})
		equal(t, "asked in the end", len(asked), 4)
	})
}

func TestAnswerSurvivesEncoding(t *testing.T) {
	actions := []handler.Action{
		{Verb: handler.ActionDelete, Resource: pods, Namespace: "shop", Name: "web", UID: "u"},
		{Verb: handler.ActionApply, Object: json.RawMessage(`{"a":9007199254740993,"b":"<&>"}`)},
		{Verb: handler.ActionPatch, PatchType: "application/json-patch+json", Patch: json.RawMessage(`[]`)},
		{Verb: handler.ActionEvent, Reason: "Seen", Message: "é\n\"x\"", Warning: true},
	}
	for _, l := range []*Lane{{opts: LaneOptions{Store: newShelf(t)}}, {}} {
		a, err := l.answer(actions)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.Read()
		if diff := cmp.Diff(actions, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		if a.Size() < 200 {
			t.Errorf("its size is %d", a.Size())
		}
	}
}
