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

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Attachments are made for each attempt. Waiting events and dead letters hold none.
func TestAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		h := recorder{answer: func(_ context.Context, ev handler.Event) error {
			if ev.Attempt < 3 {
				return errors.New("not yet")
			}
			return handler.Reject(nil)
		}}
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h, Retry: Retry{Backoff: time.Second}}, dead, Options{})
		l := d.Lane("r", pods, preparer{attach: func(d delta.Delta) (map[string][]json.RawMessage, error) {
			made++
			return map[string][]json.RawMessage{d.Object.Name(): {fmt.Append(nil, made)}}, nil
		}}.lane(LaneOptions{}))
		start(t, d)
		m := added("web", "u", 1)
		m.Payload = json.RawMessage(`"payload"`)
		l.Offer(m)
		pass(time.Minute)
		var got []string
		for _, ev := range h.events {
			got = append(got, fmt.Sprintf("%d: %s", ev.Attempt, ev.Attached["web"]))
		}
		equal(t, "attached", got, []string{"1: [1]", "2: [2]", "3: [3]"})
		letter, ok := dead.Get("r/u/added/1")
		if !ok || letter.Event().Attached != nil || string(letter.Event().Payload) != `"payload"` {
			t.Errorf("letter %+v", letter)
		}
	})
}

// An event whose attachments cannot be made is not delivered, and holds up nothing.
func TestAttachFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h recorder
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h}, dead, Options{})
		broken := true
		l := d.Lane("r", pods, preparer{attach: func(delta.Delta) (map[string][]json.RawMessage, error) {
			if broken {
				return nil, errors.New("attach pods: too much")
			}
			return map[string][]json.RawMessage{"pods": {}}, nil
		}}.lane(LaneOptions{}))
		start(t, d)
		l.Offer(added("web", "u", 1))
		synctest.Wait()
		equal(t, "letters", letters(dead), []string{"r/u/added/1: rejected: attach pods: too much"})
		broken = false
		l.Offer(updated("web", "u", 2))
		synctest.Wait()
		letter, ok := dead.Take("r/u/added/1")
		if !ok || !l.Redrive(letter) {
			t.Fatal("the letter is not redriven")
		}
		synctest.Wait()
		equal(t, "events", h.ids(), []string{"r/u/updated/2", "r/u/added/1 #2"})
	})
}

// A slow attachment holds up no other object.
func TestSlowAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h recorder
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
		slow := d.Lane("slow", pods, preparer{attach: func(delta.Delta) (map[string][]json.RawMessage, error) {
			time.Sleep(time.Hour)
			return nil, nil
		}}.lane(LaneOptions{}))
		quick := d.Lane("quick", pods, LaneOptions{})
		start(t, d)
		for _, m := range []rule.Match{added("a", "a", 1), added("b", "b", 1)} {
			slow.Offer(m)
			quick.Offer(m)
		}
		pass(time.Minute)
		equal(t, "events", slices.Sorted(slices.Values(h.ids())), []string{"quick/a/added/1", "quick/b/added/1"})
		pass(time.Hour)
		if len(h.ids()) != 4 {
			t.Errorf("%q", h.ids())
		}
	})
}
