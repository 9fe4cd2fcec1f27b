package host_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// pod is an event about an object that is called name.
func pod(name string) handler.Event {
	return handler.Event{
		ID: "rule/uid-" + name + "/updated/7", Rule: "rule", Event: handler.Updated, Attempt: 1,
		Resource:  handler.Resource{Version: "v1", Resource: "pods"},
		Namespace: "shop", Name: name, UID: "uid-" + name, ResourceVersion: "7",
		Object: json.RawMessage(`{"big":9007199254740993}`), Old: json.RawMessage(`{"ü":"\u0000"}`),
	}
}

// back sends an event that the handler echo returns, and compares.
func back(t *testing.T, h *host.Host, sent handler.Event) {
	t.Helper()
	a, err := h.Handle(t.Context(), sent)
	if err != nil || len(a.Actions) != 1 {
		t.Fatalf("back: got %v, %v", a, err)
	}
	var got handler.Event
	if err := json.Unmarshal(a.Actions[0].Object, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{})
	ready(t, h)

	if a, err := h.Handle(t.Context(), pod("done")); err != nil || len(a.Actions) != 0 {
		t.Errorf("done: got %v, %v", a, err)
	}
	if _, err := h.Handle(t.Context(), pod("retry")); err == nil || err.Error() != "not now" || errors.Is(err, handler.ErrReject) {
		t.Errorf("retry: got %v", err)
	}
	_, err := h.Handle(t.Context(), pod("later"))
	if d, ok := handler.RetryDelay(err); !ok || d != time.Minute || err.Error() != "come back" {
		t.Errorf("retry after: got %v, %v", d, err)
	}
	if _, err := h.Handle(t.Context(), pod("reject")); !errors.Is(err, handler.ErrReject) || err.Error() != "rejected: never" {
		t.Errorf("reject: got %v", err)
	}

	// Events and answers arrive unchanged, to the byte.
	sent := pod("back")
	back(t, h, sent)
	older, newer := pod("older"), sent
	older.Object, older.Old, older.Payload = nil, nil, json.RawMessage(`{"n":9007199254740993}`)
	sent.Items = []handler.Event{older, newer}
	back(t, h, sent)

	if got := h.Status(); got.State != host.Running || got.Handler.Name != "echo" || got.Handler.Version != "1.2.3" || got.PID == 0 ||
		got.Counts.Sent != 6 || got.Counts.Answered != 6 {
		t.Errorf("status: %+v", got)
	}
}
