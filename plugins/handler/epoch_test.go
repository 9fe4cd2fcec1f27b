package handler

import (
	"encoding/json"
	"testing"
)

func TestEpochCompare(t *testing.T) {
	for _, test := range []struct {
		a, b  Epoch
		order int
		ok    bool
	}{
		{Epoch{}, Epoch{}, 0, true},
		{Epoch{"a", 1, 7}, Epoch{"a", 1, 7}, 0, true},
		{Epoch{"a", 1, 7}, Epoch{"a", 1, 10}, -1, true},
		{Epoch{"a", 2, 1}, Epoch{"a", 1, 10}, 1, true},
		{Epoch{"a", 2, 1}, Epoch{"b", 1, 10}, 0, false},
		{Epoch{}, Epoch{"a", 1, 1}, 0, false},
	} {
		order, ok := test.a.Compare(test.b)
		back, _ := test.b.Compare(test.a)
		if order != test.order || ok != test.ok || back != -order {
			t.Errorf("%v and %v: got %d, %d, %v", test.a, test.b, order, back, ok)
		}
	}
}

func TestEpochString(t *testing.T) {
	if got := (Epoch{"6b1e", 1, 7}).String(); got != "6b1e/1/7" {
		t.Errorf("got %s", got)
	}
	if got := (Epoch{}).String(); got != "" {
		t.Errorf("got %s for none", got)
	}
}

// The JSON of an event without an epoch is what it was before there were any.
func TestEpochInJSON(t *testing.T) {
	const head = `{"id":"i","rule":"","event":"","attempt":0,"resource":{"group":"","version":"","resource":""},` +
		`"name":"","uid":"","resourceVersion":"7"`
	for want, ev := range map[string]Event{
		head + `}`: {ID: "i", ResourceVersion: "7"},
		head + `,"epoch":{"cluster":"6b1e","generation":1,"term":7},"traceparent":"00-a-b-01","payload":1}`: {
			ID: "i", ResourceVersion: "7", Payload: []byte("1"),
			Epoch: Epoch{"6b1e", 1, 7}, Traceparent: "00-a-b-01",
		},
	} {
		got, err := json.Marshal(ev)
		if err != nil || string(got) != want {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
}
