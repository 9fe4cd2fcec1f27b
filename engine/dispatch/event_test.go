package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

func TestEvent(t *testing.T) {
	const id = `"rule":"r","attempt":1,"resource":{"group":"","version":"v1","resource":"pods"},` +
		`"namespace":"shop","name":"web","uid":"u"`
	pod := func(version int) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web","uid":"u","resourceVersion":"%d"}}`, version)
	}
	withPayload := updated("web", "u", 2)
	withPayload.Payload = json.RawMessage(`{"a":1}`)
	tests := []struct {
		name  string
		match rule.Match
		want  string
	}{
		{"added", added("web", "u", 1),
			`{"id":"r/u/added/1","event":"added","resourceVersion":"1","object":` + pod(1) + `,` + id + `}`},
		{"updated comes with old", updated("web", "u", 2),
			`{"id":"r/u/updated/2","event":"updated","resourceVersion":"2","object":` + pod(2) + `,"old":` + pod(1) + `,` + id + `}`},
		{"deleted does not", deleted("web", "u", 3),
			`{"id":"r/u/deleted/3","event":"deleted","resourceVersion":"3","object":` + pod(3) + `,` + id + `}`},
		{"the id of a resync has its round", synced("web", "u", 2, 99),
			`{"id":"r/u/synced/2/99","event":"synced","resourceVersion":"2","object":` + pod(2) + `,` + id + `}`},
		{"a payload stands for the objects", withPayload,
			`{"id":"r/u/updated/2","event":"updated","resourceVersion":"2","payload":{"a":1},` + id + `}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h recorder
				d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
				l := d.Lane("r", pods, LaneOptions{})
				start(t, d)
				l.Offer(test.match)
				synctest.Wait()
				if len(h.events) != 1 {
					t.Fatalf("%d events", len(h.events))
				}
				got, err := json.Marshal(h.events[0])
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "event", normal(t, got), normal(t, []byte(test.want)))
				if o := h.events[0].Object; o != nil && &o[0] != &test.match.Delta.Object.JSON()[0] {
					t.Error("the object's JSON was copied")
				}
			})
		})
	}
}

func normal(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

// The payload of a merged change is remade if it could differ, once, when it is delivered.
func TestPayloadOfMergedChange(t *testing.T) {
	payload := func(m rule.Match) rule.Match {
		m.Payload = json.RawMessage(`"` + m.Delta.ID("r") + `"`)
		return m
	}
	tests := []struct {
		name    string
		matches []rule.Match
		fail    bool
		made    int
		want    string
	}{
		{"one alone has its own", []rule.Match{added("web", "u", 1)}, false, 0, `"r/u/added/1"`},
		{"updates into an addition", []rule.Match{added("web", "u", 1), updated("web", "u", 2), updated("web", "u", 3)},
			false, 1, `"remade r/u/added/3"`},
		{"old is another", []rule.Match{updated("web", "u", 2), updated("web", "u", 3)}, false, 1, `"remade r/u/updated/3"`},
		{"a deletion stands for itself", []rule.Match{updated("web", "u", 2), deleted("web", "u", 3)}, false, 0, `"r/u/deleted/3"`},
		{"the newer stands if it fails", []rule.Match{added("web", "u", 1), updated("web", "u", 2)}, true, 1, `"r/u/updated/2"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var made atomic.Int32
				tries := 0
				h := recorder{answer: func(context.Context, handler.Event) error {
					if tries++; tries == 1 {
						return errors.New("again, with the same payload")
					}
					return nil
				}}
				d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
				l := d.Lane("r", pods, preparer{remerge: func(d delta.Delta) (json.RawMessage, error) {
					made.Add(1)
					if test.fail {
						return nil, errors.New("no such field")
					}
					return json.RawMessage(`"remade ` + d.ID("r") + `"`), nil
				}}.lane(LaneOptions{}))
				for _, m := range test.matches {
					l.Offer(payload(m))
				}
				start(t, d)
				pass(time.Minute)
				equal(t, "attempts", len(h.events), 2)
				for _, ev := range h.events {
					equal(t, "payload", string(ev.Payload), test.want)
				}
				equal(t, "times made", int(made.Load()), test.made)
			})
		})
	}
}

// A payload that waits to be remade still does after another merge. A dead letter has the payload
// that was delivered.
func TestPayloadOfChangeMergedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan error)
		h := recorder{answer: func(context.Context, handler.Event) error { return <-release }}
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h}, dead, Options{})
		l := d.Lane("r", pods, preparer{remerge: func(d delta.Delta) (json.RawMessage, error) {
			return json.RawMessage(`"` + d.Type.String() + `"`), nil
		}}.lane(LaneOptions{}))
		start(t, d)
		for _, m := range []rule.Match{synced("web", "u", 1, 7), synced("web", "u", 1, 8), updated("web", "u", 2)} {
			m.Payload = json.RawMessage(`"` + m.Delta.Type.String() + `"`)
			l.Offer(m)
			synctest.Wait() // the first is in flight
		}
		release <- errors.New("again")
		pass(time.Minute)
		release <- handler.ErrReject
		synctest.Wait()
		equal(t, "payload", string(h.events[1].Payload), `"synced"`)
		all := dead.List()
		equal(t, "payload of the letter", string(all[0].Payload), `"synced"`)
	})
}

// Each event says who leads, also a repeat. The items of a group do not.
func TestEpochOfAnEvent(t *testing.T) {
	for why, o := range map[string]LaneOptions{
		"an event": {},
		"a group":  {Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Second}},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := recorder{answer: func(_ context.Context, ev handler.Event) error {
					if ev.Attempt == 1 {
						return errors.New("busy")
					}
					return nil
				}}
				epoch := handler.Epoch{Cluster: "c", Generation: 1, Term: 7}
				d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{Epoch: epoch})
				l := d.Lane("r", pods, o)
				start(t, d)
				m := added("web", "u", 1)
				if o.Gathering != nil {
					m.Group = allInOne(m.Delta)
				}
				l.Offer(m)
				pass(time.Hour)
				if len(h.events) != 2 {
					t.Fatalf("%d events", len(h.events))
				}
				for _, ev := range h.events {
					equal(t, "epoch", ev.Epoch, epoch)
					for _, item := range ev.Items {
						equal(t, "epoch of an item", item.Epoch, handler.Epoch{})
					}
					equal(t, "is a group", len(ev.Items) > 0, o.Gathering != nil)
				}
			})
		})
	}
}
