package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// elsewhere makes a Submitter of a handler.
type elsewhere struct{ handler.Handler }

func (e elsewhere) Submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error)) {
	go func() {
		var answer handler.Answer
		err := errors.New("panic")
		func() {
			defer func() { _ = recover() }()
			answer, err = e.Handle(ctx, *ev)
		}()
		answered(answer, err)
	}()
}

// inbox is a Submitter that keeps its events for a test to answer.
type inbox struct {
	handler.Handler
	mu   sync.Mutex
	open []submission
}

type submission struct {
	*handler.Event
	answered func(handler.Answer, error)
}

func (b *inbox) Submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error)) {
	stop := context.AfterFunc(ctx, func() { answered(handler.Answer{}, ctx.Err()) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, submission{ev, func(a handler.Answer, err error) {
		if stop() {
			answered(a, err)
		}
	}})
}

func (b *inbox) ids() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.open {
		ids = append(ids, s.ID)
	}
	return ids
}

// answer answers the event with that id.
func (b *inbox) answer(id string, a handler.Answer, err error) {
	b.mu.Lock()
	i := slices.IndexFunc(b.open, func(s submission) bool { return s.ID == id })
	s := b.open[i]
	b.open = slices.Delete(b.open, i, i+1)
	b.mu.Unlock()
	s.answered(a, err)
}

func TestSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h inbox
		var seen results
		d := New(Recipient{Handler: &h, Concurrency: 2}, NewLetterBox(LetterBoxOptions{}), Options{Attempted: seen.add})
		l := d.Lane("r", pods, LaneOptions{Every: true})
		start(t, d)
		for _, name := range []string{"a", "b", "c"} {
			l.Offer(added(name, name, 1))
			l.Offer(updated(name, name, 2))
		}
		synctest.Wait()
		equal(t, "no more than Concurrency", h.ids(), []string{"r/a/added/1", "r/b/added/1"})
		h.answer("r/b/added/1", handler.Answer{}, nil)
		synctest.Wait()
		equal(t, "objects take turns", h.ids(), []string{"r/a/added/1", "r/c/added/1"})
		h.answer("r/a/added/1", handler.Answer{}, errors.New("down"))
		synctest.Wait()
		equal(t, "others go on", h.ids(), []string{"r/c/added/1", "r/b/updated/2"})
		h.answer("r/b/updated/2", handler.Answer{}, nil)
		pass(time.Second)
		equal(t, "in order", h.ids(), []string{"r/c/added/1", "r/a/added/1"})
		h.answer("r/c/added/1", handler.Answer{}, handler.ErrReject)
		h.answer("r/a/added/1", handler.Answer{}, handler.ErrLost)
		pass(time.Second)
		equal(t, "after a loss, and a dead letter", h.ids(), []string{"r/c/updated/2", "r/a/added/1"})
		var got []Result
		for _, delivery := range seen.list() {
			got = append(got, delivery.Result)
		}
		slices.Sort(got[3:]) // two came at once
		equal(t, "results", got, []Result{Done, Retried, Done, Lost, Rejected})
		for _, id := range h.ids() {
			h.answer(id, handler.Answer{}, nil)
		}
		synctest.Wait()
		equal(t, "in the end", h.ids(), []string{"r/a/updated/2"})
		h.answer("r/a/updated/2", handler.Answer{}, nil)
	})
}

// When Run ends, the contexts of events that are not answered in time end.
func TestSubmitDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h inbox
		began := time.Now()
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{DrainTimeout: time.Minute})
		l := d.Lane("r", pods, LaneOptions{})
		stop := start(t, d)
		l.Offer(added("quick", "q", 1))
		l.Offer(added("never", "n", 1))
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			h.answer("r/q/added/1", handler.Answer{}, nil)
		}()
		stop()
		equal(t, "until Run returned", time.Since(began), time.Minute)
		equal(t, "waiting", l.Stats().Waiting, 1)
		equal(t, "in flight", d.InFlight(), 0)
	})
}

// An answer's consequences do not hold up whoever answers.
func TestAnswersDoNotBlock(t *testing.T) {
	one := handler.Answer{Actions: []handler.Action{{Verb: handler.ActionDelete, Name: "web"}}}
	for _, test := range []struct {
		name   string
		answer handler.Answer
		err    error
	}{
		{"actions", one, nil},
		{"a dead letter", handler.Answer{}, handler.ErrReject},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h inbox
				dead := &slowDisk{NewLetterBox(LetterBoxOptions{})}
				var seen results
				d := New(Recipient{Handler: &h}, dead, Options{
					Attempted: seen.add,
					Actor: &actor{do: func(context.Context, *handler.Event, []handler.Action) error {
						time.Sleep(time.Hour)
						return nil
					}},
				})
				l := d.Lane("r", pods, LaneOptions{})
				start(t, d)
				l.Offer(added("web", "u", 1))
				synctest.Wait()
				began := time.Now()
				h.answer("r/u/added/1", test.answer, test.err)
				equal(t, "time that the answer took", time.Since(began), 0)
				equal(t, "in flight until all is done", d.InFlight(), 1)
				pass(time.Hour)
				equal(t, "deliveries", len(seen.list()), 1)
				equal(t, "in flight", d.InFlight(), 0)
			})
		})
	}
}

// slowDisk is a DeadLetters that is slow.
type slowDisk struct{ *LetterBox }

func (s *slowDisk) Add(l delivery.Letter) ([]delivery.Letter, error) {
	time.Sleep(time.Hour)
	return s.LetterBox.Add(l)
}

// A payload that takes long to remake holds up its own object only.
func TestSlowRemerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h inbox
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, preparer{remerge: func(delta.Delta) (json.RawMessage, error) {
			time.Sleep(time.Hour)
			return json.RawMessage(`"new"`), nil
		}}.lane(LaneOptions{}))
		for version := range 2 { // they merge before they are taken
			m := updated("slow", "s", version+1)
			m.Payload = json.RawMessage(`"old"`)
			l.Offer(m)
		}
		start(t, d)
		synctest.Wait()
		l.Offer(added("quick", "q", 1))
		synctest.Wait()
		equal(t, "events", h.ids(), []string{"r/q/added/1"})
		pass(time.Hour)
		equal(t, "events an hour later", h.ids(), []string{"r/q/added/1", "r/s/updated/2"})
		equal(t, "payload", string(h.open[1].Payload), `"new"`)
		for _, id := range h.ids() {
			h.answer(id, handler.Answer{}, nil)
		}
	})
}

// A held suspect goes when there is room, whatever made it.
func TestSuspectsWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h inbox
		limit := 3
		d := New(Recipient{Handler: &h, Limit: func() (int, bool) { return limit, false }}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		for _, name := range []string{"a", "b"} {
			l.Offer(added(name, name, 1))
			synctest.Wait()
			h.answer(fmt.Sprintf("r/%s/added/1", name), handler.Answer{}, handler.ErrLost)
		}
		l.Offer(added("well", "w", 1))
		pass(time.Second)
		first, second := "r/a/added/1", "r/b/added/1"
		if slices.Contains(h.ids(), second) { // delays are random
			first, second = second, first
		}
		equal(t, "one suspect, and one that is not", h.ids(), []string{"r/w/added/1", first})
		limit = 1
		h.answer(first, handler.Answer{}, nil)
		synctest.Wait()
		equal(t, "no room for the other", h.ids(), []string{"r/w/added/1"})
		h.answer("r/w/added/1", handler.Answer{}, nil)
		synctest.Wait()
		equal(t, "room", h.ids(), []string{second})
		h.answer(second, handler.Answer{}, nil)
	})
}
