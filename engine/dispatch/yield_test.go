package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

var errTarget = Later(30*time.Second, errors.New("exceeded quota"))

// doer is a rule that acts alone. It records when it acted, and on which version.
type doer struct {
	mu     sync.Mutex
	begun  time.Time
	all    []attempt
	answer func(*handler.Event) error
}

type attempt struct {
	at time.Duration
	id string // with the number of the attempt
}

func (a *doer) do(_ context.Context, ev *handler.Event, _ []handler.Action) error {
	a.mu.Lock()
	a.all = append(a.all, attempt{time.Since(a.begun), fmt.Sprint(ev.ID, " #", ev.Attempt)})
	a.mu.Unlock()
	return a.answer(ev)
}

func (a *doer) take() []attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.all
	a.all = nil
	return all
}

// takeIDs returns the ids of the attempts since the last take.
func (a *doer) takeIDs() (ids []string) {
	for _, attempt := range a.take() {
		ids = append(ids, attempt.id)
	}
	return ids
}

// start starts a's dispatcher with one lane.
func (a *doer) start(t *testing.T, s *shelf, o LaneOptions) (l *Lane, stop func()) {
	options := Options{Actor: &actor{do: a.do}}
	if s != nil {
		options.Journal, o.Store = s, s
	}
	o = preparer{actions: func(context.Context, delta.Delta) ([]handler.Action, error) {
		return []handler.Action{{}}, nil
	}}.lane(o)
	d := New(Recipient{}, NewLetterBox(LetterBoxOptions{}), options)
	l = d.Lane("r", pods, o)
	if s != nil {
		s.restore(l)
	}
	a.begun = time.Now()
	return l, start(t, d)
}

func always(err error) func(*handler.Event) error {
	return func(*handler.Event) error { return err }
}

// A newer change does not wait for the next attempt of own actions. That comes when the last attempt
// said, without a backoff of its own.
func TestNewerChangesDoNotWaitForOwnActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &doer{answer: always(errTarget)}
		l, _ := a.start(t, nil, LaneOptions{})
		l.Offer(updated("web", "u", 1))
		pass(95 * time.Second)
		all := a.take()
		equal(t, "attempts", len(all), 4)
		equal(t, "the last one", fmt.Sprint(all[3]), "{90000000000 r/u/updated/1 #4}")
		for version := 2; version <= 4; version++ {
			l.Offer(updated("web", "u", version))
			synctest.Wait()
			equal(t, "at once", a.takeIDs(), []string{fmt.Sprintf("r/u/updated/%d #1", version)})
			pass(time.Second)
		}
		pass(28 * time.Second)
		equal(t, "early", a.takeIDs(), nil)
		pass(2 * time.Second)
		equal(t, "in its time", fmt.Sprint(a.take()), "[{127000000000 r/u/updated/4 #2}]")
	})
}

// A backoff starts over after an error that has a time of its own: the API server is well again.
func TestLaterEndsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hasTarget atomic.Bool
		a := &doer{answer: func(*handler.Event) error {
			if hasTarget.Swap(false) {
				return errTarget
			}
			return errors.New("503")
		}}
		l, _ := a.start(t, nil, LaneOptions{})
		l.Offer(updated("web", "u", 1))
		pass(70 * time.Second)
		hasTarget.Store(true)
		l.RetryNow(func(delta.Key) bool { return true })
		pass(30 * time.Second)
		a.take()
		pass(time.Second)
		equal(t, "attempts", len(a.take()), 1)
	})
}

// Own actions that stop because they have to are no failure: they go on as soon as they may.
func TestStoppedOwnActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := new(results)
		begun, paused := make(chan bool), make(chan bool)
		do := &stopping{begun: begun, paused: paused}
		d := New(Recipient{}, NewLetterBox(LetterBoxOptions{}), Options{Actor: do, Attempted: results.add})
		l := d.Lane("r", pods, preparer{actions: func(context.Context, delta.Delta) ([]handler.Action, error) {
			return []handler.Action{{}}, nil
		}}.lane(LaneOptions{}))
		start(t, d)
		l.Offer(added("web", "u", 1))
		<-begun
		l.Pause()
		paused <- true
		pass(time.Hour)
		equal(t, "results", results.of(), []Result{Cancelled})
		l.Resume()
		<-begun
		paused <- false
		synctest.Wait()
		equal(t, "results", results.of(), []Result{Cancelled, Done})
		equal(t, "attempts", do.attempts, []int{1, 1})
		if _, failed := l.LastFailure(); failed {
			t.Error("a pause is a failure")
		}
	})
}

// stopping is an Actor that asks whether to stop.
type stopping struct {
	actor
	begun, paused chan bool
	attempts      []int
}

func (s *stopping) Perform(_ context.Context, p Performance) (trail.Verdict, error) {
	s.attempts = append(s.attempts, p.Event.Attempt)
	s.begun <- true
	if <-s.paused != p.Stop() {
		return 0, errors.New("stop does not say whether the lane is paused")
	}
	if p.Stop() {
		return 0, ErrStopped
	}
	return 0, nil
}

// Only a newer change that merges into the one that failed comes early, and only if the error says
// that this may help.
func TestChangesThatWaitForOwnActions(t *testing.T) {
	groups := &Gathering{By: "all", Wait: time.Millisecond, Of: func(delta.Delta) rule.Group { return rule.Group{} }}
	for name, c := range map[string]struct {
		err   error
		o     LaneOptions
		newer rule.Match
	}{
		"the API server is in trouble": {err: errors.New("503")},
		"the object is another one":    {err: fmt.Errorf("%w: %w", ErrStale, errTarget)},
		"every change counts":          {err: errTarget, o: LaneOptions{Every: true}},
		"groups":                       {err: errTarget, o: LaneOptions{Gathering: groups}},
		"a resync brings nothing new":  {err: errTarget, newer: synced("web", "u", 1, 7)},
		"another object of the name":   {err: errTarget, newer: added("web", "v", 2)},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &doer{answer: always(c.err)}
			l, _ := a.start(t, nil, c.o)
			first := updated("web", "u", 1)
			if c.newer.Delta.Object == nil {
				c.newer = updated("web", "u", 2)
			} else if c.newer.Delta.Type == delta.Added {
				first = deleted("web", "u", 1)
			}
			l.Offer(first)
			pass(20 * time.Second)
			for a.take(); len(a.take()) == 0; { // until a delay begins that takes seconds
				pass(time.Second)
			}
			l.Offer(c.newer)
			pass(2 * time.Second)
			equal(t, name, a.takeIDs(), nil)
		})
	}
}

// A rule that changes its own object with each attempt does not cause the next one with it.
func TestOwnChangesDoNotEndTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, version := newWrites(), 1
		var l *Lane
		a := &doer{answer: func(*handler.Event) error {
			version++
			w.begin("web")
			l.Offer(versioned(updated("web", "u", version))) // the watch is faster than the response
			w.end("web", version)
			return errTarget
		}}
		l, _ = a.start(t, nil, LaneOptions{Own: w})
		l.Offer(versioned(updated("web", "u", 1)))
		pass(45 * time.Second)
		equal(t, "attempts", len(a.take()), 2) // after 0 and 30 seconds
	})
}

// A newer change goes to the rule's handler at once, too. Its own actions then fail as early.
func TestNewerChangesOfBothDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &both{acted: failing(99, errTarget)}
		l, _ := b.start(t, nil, NewLetterBox(LetterBoxOptions{}))
		l.Offer(added("web", "u", 1))
		pass(20 * time.Second)
		b.take()
		l.Offer(updated("web", "u", 2))
		synctest.Wait()
		equal(t, "at once", b.take(), []string{"event r/u/added/2 #1", "own of2 #1"})
		pass(30 * time.Second)
		equal(t, "in its time", b.take(), []string{"own of2 #2"})

		b.answer = failing(1, errLater) // that is the handler's failure, and what is newer waits for it
		l.Offer(updated("web", "u", 3))
		synctest.Wait()
		equal(t, "at once", b.take(), []string{"event r/u/added/3 #1"})
		l.Offer(updated("web", "u", 4))
		pass(500 * time.Millisecond)
		equal(t, "waits", b.take(), nil)
	})
}

// A pause, an operator's retry and the end of the process treat such a change like any other.
func TestOperatorsAndNewerChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		a := &doer{answer: always(errTarget)}
		l, stop := a.start(t, s, LaneOptions{})
		s.offer(l, updated("web", "u", 1))
		pass(20 * time.Second)
		a.take()
		l.Pause()
		s.offer(l, updated("web", "u", 2))
		pass(2 * time.Second)
		equal(t, "paused", a.takeIDs(), nil)
		l.Resume()
		synctest.Wait()
		equal(t, "resumed", a.takeIDs(), []string{"r/u/updated/2 #1"})

		equal(t, "retried on request", l.RetryNow(func(delta.Key) bool { return true }), 1)
		synctest.Wait()
		equal(t, "retried on request", a.takeIDs(), []string{"r/u/updated/2 #2"})
		look := l.Look(updated("web", "u", 2).Delta.Key())
		if left := time.Until(look.Due); !look.Yields || left < 25*time.Second || left > 32*time.Second {
			t.Errorf("the next attempt comes in %v, and yields: %v", left, look.Yields)
		}

		s.write()
		next := s.kill()
		stop()
		l.Close()
		pass(time.Second)
		l, _ = a.start(t, next, LaneOptions{})
		pass(time.Second)
		equal(t, "after the restart", a.takeIDs(), nil)
		next.offer(l, updated("web", "u", 3))
		synctest.Wait()
		equal(t, "and a newer change", a.takeIDs(), []string{"r/u/updated/3 #1"})
		pass(2 * time.Second)
		equal(t, "once", a.takeIDs(), nil)

		a.answer = always(nil)
		next.offer(l, updated("web", "u", 4))
		pass(time.Minute)
		equal(t, "done", a.takeIDs(), []string{"r/u/updated/4 #1"})
		equal(t, "records", next.ids(), nil)
	})
}
