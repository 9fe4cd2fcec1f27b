package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestReject(t *testing.T) {
	cause := errors.New("no such channel")
	err := fmt.Errorf("page: %w", Reject(cause))
	if !errors.Is(err, ErrReject) || !errors.Is(err, cause) || err.Error() != "page: rejected: no such channel" {
		t.Errorf("%v is to be a rejection that tells its cause", err)
	}
	if !errors.Is(Reject(nil), ErrReject) {
		t.Error("a rejection needs no cause")
	}
}

func TestRetryAfter(t *testing.T) {
	cause := errors.New("quota exceeded")
	err := fmt.Errorf("page: %w", RetryAfter(time.Minute, cause))
	if d, ok := RetryDelay(err); !ok || d != time.Minute || !errors.Is(err, cause) || errors.Is(err, ErrReject) {
		t.Errorf("%v asks for a retry after %v, %v; want a minute", err, d, ok)
	}
	for _, err := range []error{nil, cause, RetryAfter(0, cause), RetryAfter(-time.Second, nil)} {
		if d, ok := RetryDelay(err); ok {
			t.Errorf("%v asks for %v; it is left to informd", err, d)
		}
	}
	if text := RetryAfter(time.Second, nil).Error(); text != "retry after 1s" {
		t.Errorf("without a cause it says %q", text)
	}
}

// The names and their order are what commands of the exec builtin and readers of the log builtin
// see.
func TestEventAsJSON(t *testing.T) {
	for want, ev := range map[string]Event{
		`{"id":"i","rule":"r","event":"updated","attempt":1,"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"shop","name":"web-0","uid":"u","resourceVersion":"7","object":{"a":9007199254740993},"old":{}}`: {
			ID: "i", Rule: "r", Event: Updated, Attempt: 1, Resource: Resource{"", "v1", "pods"}, Namespace: "shop", Name: "web-0",
			UID: "u", ResourceVersion: "7", Object: json.RawMessage(`{"a":9007199254740993}`), Old: json.RawMessage(`{}`),
		},
		`{"id":"i","rule":"r","event":"deleted","attempt":2,"resource":{"group":"apps","version":"v1","resource":"deployments"},"name":"n","uid":"u","resourceVersion":"7","payload":null}`: {
			ID: "i", Rule: "r", Event: Deleted, Attempt: 2, Resource: Resource{"apps", "v1", "deployments"}, Name: "n", UID: "u",
			ResourceVersion: "7", Payload: json.RawMessage(`null`),
		},
	} {
		got, err := json.Marshal(ev)
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
		var back Event
		if err := json.Unmarshal(got, &back); err != nil || back.ID != ev.ID || string(back.Object) != string(ev.Object) {
			t.Errorf("read back: %+v, %v", back, err)
		}
	}
}
