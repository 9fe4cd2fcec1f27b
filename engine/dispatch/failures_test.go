package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

func TestJudge(t *testing.T) {
	failed := errors.New("failed")
	retry := Retry{Backoff: time.Second, MaxBackoff: time.Minute}
	tests := []struct {
		name   string
		retry  Retry
		d      delivery.Delivery
		answer error
		want   Result
		after  time.Duration // the longest or shortest delay, give or take a fifth
		reason string
	}{
		{"done", retry, delivery.Delivery{}, nil, Done, 0, ""},
		{"rejected", retry, delivery.Delivery{}, handler.Reject(failed), Rejected, 0, "rejected: failed"},
		{"rejected, wrapped", retry, delivery.Delivery{}, fmt.Errorf("x: %w", handler.ErrReject), Rejected, 0, "x: rejected"},
		{"the first failure", retry, delivery.Delivery{}, failed, Retried, time.Second, "failed"},
		{"the fourth", retry, delivery.Delivery{Backoff: 3}, failed, Retried, 8 * time.Second, "failed"},
		{"the backoff ends growing", retry, delivery.Delivery{Backoff: 1 << 40}, failed, Retried, time.Minute, "failed"},
		{"a time was asked for", retry, delivery.Delivery{Backoff: 9}, handler.RetryAfter(10*time.Second, failed), Retried,
			10 * time.Second, "failed"},
		{"one too short", retry, delivery.Delivery{}, handler.RetryAfter(1, failed), Retried, time.Second, "failed"},
		{"one too long", retry, delivery.Delivery{}, handler.RetryAfter(1<<62, failed), Retried, 24 * time.Hour, "failed"},
		{"none to speak of", retry, delivery.Delivery{}, handler.RetryAfter(-1, failed), Retried, time.Second, "failed"},
		{"attempts are left", Retry{Attempts: 3, Backoff: time.Second, MaxBackoff: time.Minute}, delivery.Delivery{Failures: 1}, failed, Retried, time.Second, "failed"},
		{"no attempt is left", Retry{Attempts: 3, Backoff: time.Second, MaxBackoff: time.Minute}, delivery.Delivery{Failures: 2}, failed, Dead, 0, "failed"},
		{"a loss is not one of them", Retry{Attempts: 1, Backoff: time.Second, MaxBackoff: time.Minute}, delivery.Delivery{}, handler.ErrLost, Lost, time.Second,
			"handler lost before it answered"},
		{"the handler's return does not wait for long backoffs", Retry{Attempts: 0, Backoff: time.Hour, MaxBackoff: time.Hour}, delivery.Delivery{}, handler.ErrLost, Lost,
			time.Second, "handler lost before it answered"},
		{"the third loss, of which more is known", retry, delivery.Delivery{Losses: 2}, fmt.Errorf("%w: it was killed", handler.ErrLost), Dead, 0,
			"the handler crashed three times with this event in flight; the last time: it was killed"},
		{"the third loss", retry, delivery.Delivery{Losses: 2}, handler.ErrLost, Dead, 0, "the handler crashed three times with this event in flight"},
		{"losses count in a row", retry, delivery.Delivery{Losses: 2}, failed, Retried, time.Second, "failed"},
		{"no answer shows nothing", retry, delivery.Delivery{Losses: 2}, handler.ErrNoAnswer, Retried, time.Second, "no answer within the time limit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 20 { // delays are random
				d, v := test.retry.judge(test.d, test.answer)
				equal(t, "result", v.result, test.want)
				equal(t, "reason", v.reason, test.reason)
				if v.after < test.after*4/5 || v.after > test.after*6/5 {
					t.Errorf("after %v, want about %v", v.after, test.after)
				}
				if _, asked := handler.RetryDelay(test.answer); !asked && v.after > test.after {
					t.Errorf("after %v, more than %v", v.after, test.after)
				} else if asked && v.after < test.after {
					t.Errorf("after %v, less than %v", v.after, test.after)
				}
				if kept := errors.Is(test.answer, handler.ErrNoAnswer); v.result == Retried && (d.Losses == test.d.Losses) != (kept || test.d.Losses == 0) {
					t.Errorf("%d losses, after %d before", d.Losses, test.d.Losses)
				}
			}
		})
	}
}

// A failing object is retried at growing intervals, whether it changes or not, and holds up no
// other.
func TestBackoffIsPerObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		h := recorder{answer: func(_ context.Context, ev handler.Event) error {
			if ev.Name != "failing" {
				return nil
			}
			at = append(at, time.Since(began))
			return errors.New("down")
		}}
		d := New(Recipient{Handler: &h, Concurrency: 1, Retry: Retry{MaxBackoff: 8 * time.Second}}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		for version := 1; version <= 60; version++ { // a hot object: a change each second
			l.Offer(updated("failing", "f", version))
			l.Offer(updated("well", "w", version))
			pass(time.Second)
		}
		last := time.Duration(0)
		for i, want := range []time.Duration{0, 1, 2, 4, 8, 8, 8, 8, 8} {
			want *= time.Second
			if gap := at[i] - last; gap < want*4/5 || gap > want {
				t.Errorf("attempt %d came %v after the one before, want about %v", i+1, gap, want)
			}
			last = at[i]
		}
		well := 0
		for _, ev := range h.events {
			if ev.Name == "well" {
				well++
				// the first retry may come before the second change
			} else if ev.Attempt != 1 && ev.ResourceVersion != "1" {
				t.Errorf("%s is new, but its attempt is %d", ev.ID, ev.Attempt)
			}
		}
		equal(t, "events of the other object", well, 60)
	})
}

// A resync of an object that waits for a retry makes no new event, so attempts go on counting.
func TestAttemptsOfTheSameEventAfterMerging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := recorder{answer: func(context.Context, handler.Event) error { return errors.New("down") }}
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h, Retry: Retry{Attempts: 3}}, dead, Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		l.Offer(added("web", "u", 1))
		synctest.Wait()
		l.Offer(synced("web", "u", 1, 1234))
		pass(time.Minute)
		equal(t, "events", h.ids(), []string{"r/u/added/1", "r/u/added/1 #2", "r/u/added/1 #3"})
		equal(t, "dead", letters(dead), []string{"r/u/added/1: down"})
	})
}

func TestLaterChangesGoOnAfterDeadLetter(t *testing.T) {
	for _, answer := range []error{handler.Reject(errors.New("no")), errors.New("out of attempts")} {
		t.Run(answer.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := recorder{answer: func(_ context.Context, ev handler.Event) error {
					if ev.ResourceVersion == "1" {
						return answer
					}
					return nil
				}}
				dead := NewLetterBox(LetterBoxOptions{})
				d := New(Recipient{Name: "h", Handler: &h, Retry: Retry{Attempts: 1}}, dead, Options{})
				l := d.Lane("r", pods, LaneOptions{Every: true})
				start(t, d)
				offered := time.Now()
				l.Offer(added("web", "u", 1))
				l.Offer(updated("web", "u", 2))
				synctest.Wait()
				equal(t, "events", h.ids(), []string{"r/u/added/1", "r/u/updated/2"})
				all := dead.List()
				equal(t, "letters", len(all), 1)
				want := delivery.Letter{
					ID: "r/u/added/1", Rule: "r", Handler: "h", Resource: pods, Key: all[0].Delta.Key(), Reason: answer.Error(),
					Attempts: 1, Since: offered, Died: offered,
					Delivered: offered, // the second change was
				}
				all[0].Delta.Object = nil
				equal(t, "letter", all[0], want)
			})
		})
	}
}

// Only a later event of the same rule and object marks a letter: no other rule's, no other
// object's, none that failed, and no letter that is delivered again.
func TestLettersOfObjectsDeliveredSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		h := recorder{answer: func(_ context.Context, ev handler.Event) error {
			if broken && ev.Name == "web" && ev.Rule == "r" {
				return handler.Reject(errors.New("broken"))
			}
			return nil
		}}
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h}, dead, Options{})
		l, other := d.Lane("r", pods, LaneOptions{}), d.Lane("other", pods, LaneOptions{})
		start(t, d)
		check := func(when string, want ...bool) {
			t.Helper()
			pass(time.Second)
			var marked []bool
			for _, l := range dead.List() {
				marked = append(marked, !l.Delivered.IsZero())
			}
			equal(t, when, marked, want)
		}
		l.Offer(added("web", "u", 1))
		pass(time.Second)
		l.Offer(updated("web", "u", 2))
		l.Offer(added("db", "v", 1))
		other.Offer(added("web", "u", 1))
		check("nothing later of the object was delivered to the rule", false, false)
		broken = false
		letter, _ := dead.Take("r/u/added/1")
		l.Redrive(letter)
		check("the first is delivered again: it is older than the second", false)
		l.Offer(updated("web", "u", 3))
		check("a later one", true)
		broken = true
		l.Offer(updated("web", "u", 4))
		check("one that failed", true, false)
	})
}

func TestRedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		h := recorder{answer: func(context.Context, handler.Event) error {
			if broken {
				return errors.New("broken")
			}
			return nil
		}}
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h, Retry: Retry{Attempts: 2}}, dead, Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		redrive := func() {
			letter, ok := dead.Take("r/u/added/1")
			if !ok {
				t.Fatal("there is no letter to take")
			}
			l.Redrive(letter)
			pass(time.Minute)
		}
		l.Offer(added("web", "u", 1))
		pass(time.Minute)
		redrive() // it uses up its attempts, and is a dead letter again
		broken = false
		redrive()
		equal(t, "events: one id, attempts go on", h.ids(), []string{
			"r/u/added/1", "r/u/added/1 #2", "r/u/added/1 #3", "r/u/added/1 #4", "r/u/added/1 #5",
		})
		equal(t, "dead", letters(dead), nil)
	})
}

// crashing is a handler process whose crashes take everything in flight with them.
type crashing struct {
	recorder
	poison string
	crash  chan struct{}
}

func newCrashing(poison string) *crashing {
	c := &crashing{poison: poison, crash: make(chan struct{})}
	c.answer = func(_ context.Context, ev handler.Event) error {
		c.mu.Lock()
		crash := c.crash
		c.mu.Unlock()
		poisonous, took := ev.Name == c.poison, time.Second
		if poisonous {
			took /= 2
		}
		select {
		case <-crash:
			return handler.ErrLost
		case <-time.After(took):
		}
		if !poisonous {
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if crash == c.crash {
			close(crash)
			c.crash = make(chan struct{})
		}
		return handler.ErrLost
	}
	return c
}

// An object that crashes its handler becomes a dead letter. Those in flight next to it do not.
func TestPoisonousObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrashing("poison")
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: h, Concurrency: 8}, dead, Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		for i := range 100 {
			l.Offer(added(fmt.Sprint("web", i), fmt.Sprint("w", i), 1))
			if i == 3 {
				l.Offer(added("poison", "p", 1))
			}
		}
		pass(10 * time.Minute)
		equal(t, "dead", letters(dead), []string{"r/p/added/1: the handler crashed three times with this event in flight"})
		equal(t, "stats", l.Stats().Waiting+l.Stats().InFlight, 0)
		var attempts []int
		for _, ev := range h.events {
			if ev.Name == "poison" {
				attempts = append(attempts, ev.Attempt)
			}
		}
		equal(t, "attempts at the poison", attempts, []int{1, 2, 3})
	})
}

// Of the events that were in flight at a crash, the one that was there at an earlier crash goes
// last. Otherwise crashes soon after each start could hit the same innocent event three times.
func TestSuspectsTakeTurns(t *testing.T) {
	for range 30 { // delays are random
		synctest.Test(t, func(t *testing.T) {
			var h inbox
			d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
			l := d.Lane("r", pods, LaneOptions{})
			start(t, d)
			crash := func() {
				for _, id := range h.ids() {
					h.answer(id, handler.Answer{}, handler.ErrLost)
				}
				pass(2 * maxLostFor)
			}
			l.Offer(added("a", "a", 1))
			synctest.Wait()
			crash()
			for _, name := range []string{"b", "c", "d", "e", "f", "g", "h"} {
				l.Offer(added(name, name, 1))
			}
			synctest.Wait()
			equal(t, "in flight at the second crash", len(h.ids()), 8)
			crash()
			if ids := h.ids(); len(ids) != 1 || ids[0] == "r/a/added/1" {
				t.Errorf("%v are in flight, want one that is not a", ids)
			}
		})
	}
}

func TestPoisonousObjectThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := recorder{answer: func(context.Context, handler.Event) error { return handler.ErrLost }}
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h}, dead, Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		for version := 1; version <= 3; version++ {
			l.Offer(updated("web", "u", version))
			// less than the shortest delay, so each retry has the next change
			pass(700 * time.Millisecond)
		}
		pass(time.Minute)
		equal(t, "dead", letters(dead)[0], "r/u/updated/3: the handler crashed three times with this event in flight")
		equal(t, "events", len(h.events), 3)
	})
}

// When a rule goes away, its held suspects go too. They do not keep others from being delivered.
func TestSuspectsOfClosedLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrashing("poison")
		d := New(Recipient{Handler: h, Concurrency: 4}, NewLetterBox(LetterBoxOptions{}), Options{})
		gone, stays := d.Lane("gone", pods, LaneOptions{}), d.Lane("stays", pods, LaneOptions{})
		start(t, d)
		for _, name := range []string{"poison", "a", "b"} {
			gone.Offer(added(name, name, 1))
		}
		stays.Offer(added("c", "c", 1))
		// the crash, and the longest delay after it: one is in flight, three are held
		pass(1600 * time.Millisecond)
		gone.Close()
		pass(time.Minute)
		ids := h.ids()
		equal(t, "delivered", slices.Contains(ids, "stays/c/added/1 #2"), true)
		equal(t, "held", len(d.suspects.held), 0)
	})
}

func TestPanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := recorder{answer: func(context.Context, handler.Event) error { panic("oops") }}
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h, Retry: Retry{Attempts: 2}}, dead, Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		l.Offer(added("web", "u", 1))
		pass(time.Minute)
		equal(t, "events", h.ids(), []string{"r/u/added/1", "r/u/added/1 #2"})
		equal(t, "dead", letters(dead), []string{"r/u/added/1: handler panicked: oops"})
	})
}

func TestActions(t *testing.T) {
	one := []handler.Action{{Verb: handler.ActionDelete, Name: "web"}}
	tests := []struct {
		name    string
		actions []handler.Action
		allowed bool
		fail    error
		result  Result
		reason  string
	}{
		{"none are allowed", one, false, nil, Rejected, "rejected: the answer asks for 1 actions, and the handler is allowed none: its spec.access.write is empty"},
		{"carried out", one, true, nil, Done, ""},
		{"forbidden", one, true, handler.Reject(errors.New("forbidden")), Rejected, "rejected: forbidden"},
		{"the API server is away", one, true, errors.New("refused"), Retried, ""},
		{"too many", slices.Repeat(one, 65), true, nil, Rejected, "rejected: the answer asks for 65 actions, more than 64"},
		{"an empty list", []handler.Action{}, false, nil, Done, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen results
				o := Options{Attempted: seen.add}
				if test.allowed {
					o.Actor = &actor{do: func(_ context.Context, ev *handler.Event, actions []handler.Action) error {
						equal(t, "actions", actions, one)
						equal(t, "of", ev.Rule+" "+ev.ID, "r r/u/added/1")
						return test.fail
					}}
				}
				dead := NewLetterBox(LetterBoxOptions{})
				h := handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
					return handler.Answer{Actions: test.actions}, nil
				})
				d := New(Recipient{Handler: h}, dead, o)
				l := d.Lane("r", pods, LaneOptions{})
				start(t, d)
				l.Offer(added("web", "u", 1))
				synctest.Wait()
				equal(t, "result", seen.list()[0].Result, test.result)
				if test.reason != "" {
					equal(t, "dead", letters(dead), []string{"r/u/added/1: " + test.reason})
				}
			})
		})
	}
}

// fullDisk is a DeadLetters that can keep nothing for a while.
type fullDisk struct {
	*LetterBox
	until time.Time
}

func (f *fullDisk) Add(l delivery.Letter) ([]delivery.Letter, error) {
	if time.Now().Before(f.until) {
		return nil, errors.New("no space left on device")
	}
	return f.LetterBox.Add(l)
}

func TestDeadLetterThatCannotBeKeptIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := recorder{answer: func(context.Context, handler.Event) error { return handler.ErrReject }}
		dead := &fullDisk{NewLetterBox(LetterBoxOptions{}), time.Now().Add(time.Second)}
		d := New(Recipient{Handler: &h, Retry: Retry{MaxBackoff: time.Minute}}, dead, Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		l.Offer(added("web", "u", 1))
		pass(2 * time.Minute)
		equal(t, "events", h.ids(), []string{"r/u/added/1", "r/u/added/1 #2"})
		equal(t, "dead", letters(dead), []string{"r/u/added/1: rejected"})
	})
}

// The errors of a Preparer quote nothing, so they are shown although the handler sees secrets. Its
// panics may quote anything.
func TestPanicOfAPreparerMayQuoteASecret(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("cannot compare") },
		"panic": func() error { panic("hunter2") },
	} {
		synctest.Test(t, func(t *testing.T) {
			var h recorder
			dead := NewLetterBox(LetterBoxOptions{})
			d := New(Recipient{Handler: &h, Retry: Retry{Attempts: 1}}, dead, Options{})
			l := d.Lane("r", pods, preparer{
				attach: func(delta.Delta) (map[string][]json.RawMessage, error) { return nil, fail() },
				secret: func() bool { return true },
			}.lane(LaneOptions{}))
			start(t, d)
			l.Offer(added("web", "u", 1))
			synctest.Wait()
			if all := dead.List(); len(all) != 1 || !all[0].Confidential || all[0].Quotes() != (name == "panic") {
				t.Errorf("%s: %+v", name, all)
			}
		})
	}
}

// LastFailure says what failed last, and why.
func TestLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
			if ev.Attempt == 1 {
				return handler.Answer{}, errors.New("503 Service Unavailable")
			}
			return handler.Answer{}, nil
		})
		d := New(Recipient{Handler: h}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		if f, ok := l.LastFailure(); ok {
			t.Errorf("LastFailure before any failure: %+v", f)
		}
		began := time.Now()
		l.Offer(added("web", "u", 1))
		synctest.Wait()
		f, ok := l.LastFailure()
		if !ok || f.Key.Name != "web" || f.Attempt != 1 || f.Reason != "503 Service Unavailable" || !f.At.Equal(began) {
			t.Errorf("got %+v, %v", f, ok)
		}
		pass(time.Minute)
		equal(t, "delayed", l.Stats().Delayed, 0)
	})
}
