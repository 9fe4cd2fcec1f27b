package handler

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

type pod struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Priority int8 `json:"priority"`
	} `json:"spec"`
}

func TestDecode(t *testing.T) {
	ev := Event{
		Rule: "r", Resource: Resource{"apps", "v1", "deployments"}, Namespace: "shop", Name: "web",
		Object: json.RawMessage(`{"kind":"Pod","metadata":{"name":"new"},"spec":{"priority":7}}`), Old: json.RawMessage(`{"metadata":{"name":"old"}}`),
	}
	var object, old pod
	if err := ev.Decode(&object); err != nil || object.Metadata.Name != "new" || object.Spec.Priority != 7 {
		t.Errorf("got %+v, %v", object, err)
	}
	if found, err := ev.DecodeOld(&old); err != nil || !found || old.Metadata.Name != "old" {
		t.Errorf("got %+v, %v, %v", old, found, err)
	}
	var fields map[string]string
	ev.Payload = json.RawMessage(` {"node":"n"} `)
	if err := ev.DecodePayload(&fields); err != nil || fields["node"] != "n" {
		t.Errorf("got %v, %v", fields, err)
	}
	ev.Old, ev.Payload = nil, nil
	if found, err := ev.DecodeOld(&old); found || err != nil {
		t.Errorf("without one: %v, %v", found, err)
	}
}

// An error names the object and says what to do. It quotes no value, and leaves what it decodes
// into as it is if there is nothing to decode.
func TestDecodeRefuses(t *testing.T) {
	decode := func(ev Event, v any) error { return ev.Decode(v) }
	decodeOld := func(ev Event, v any) error { _, err := ev.DecodeOld(v); return err }
	decodePayload := func(ev Event, v any) error { return ev.DecodePayload(v) }
	payload := json.RawMessage(`{"a":1}`)
	for _, c := range []struct {
		decode func(Event, any) error
		event  Event
		want   string
	}{
		{decode, Event{Payload: payload}, `the event has no object, because rule "r" has a payload: decode that, or remove it from the rule`},
		{decodeOld, Event{Payload: payload}, `the event has no old, because rule "r" has a payload: decode that, or remove it from the rule`},
		{decodePayload, Event{Object: payload}, `the event has no payload: add spec.payload to rule "r"`},
		{decodePayload, Event{Payload: json.RawMessage(`null`)}, "payload is null"},
		{decode, Event{Payload: json.RawMessage(`null`)}, `the event has no object, because rule "r" has a payload: decode that, or remove it from the rule`},
		{decode, Event{}, "the event has no object"},
		{decode, Event{Object: json.RawMessage(` null`)}, "object is null"},
		{decode, Event{Object: json.RawMessage(`{"spec":{"priority":12321}}`)}, "object.spec.priority: a number does not fit the Go type int8"},
		{decode, Event{Object: json.RawMessage(`{"metadata":{"name":12321}}`)}, "object.metadata.name: a number does not fit the Go type string"},
		{decodeOld, Event{Old: json.RawMessage(`{"spec":{"priority":"12321"}}`)}, "old.spec.priority: a string does not fit the Go type int8"},
		{decodePayload, Event{Payload: json.RawMessage(`["12321"]`)}, "payload: a list does not fit the Go type handler.pod"},
		{decode, Event{Object: json.RawMessage(`{"spec":`)}, "object: unexpected end of JSON input"},
	} {
		c.event.Rule, c.event.Resource, c.event.Namespace, c.event.Name = "r", Resource{Version: "v1", Resource: "pods"}, "shop", "web-0"
		var v pod
		v.Spec.Priority = 5
		err := c.decode(c.event, &v)
		if want := "rejected: v1/pods shop/web-0: " + c.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if !errors.Is(err, ErrReject) || v.Spec.Priority != 5 {
			t.Errorf("%v: is no rejection, or has decoded %+v", err, v)
		}
	}
	if err := (Event{Object: payload}).Decode(pod{}); err == nil || !strings.Contains(err.Error(), "non-pointer") {
		t.Errorf("into a value: %v", err)
	}
}
