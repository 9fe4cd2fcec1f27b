package action

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

func TestEnded(t *testing.T) {
	const terminating = `"name":"a","causes":[{"reason":"NamespaceTerminating","message":"it ends"}]`
	other := aPatch()
	other.Name = "other"
	apply := handler.Action{Verb: handler.ActionApply, Resource: handler.Resource(pods), Namespace: "shop", Name: "a", Object: []byte(`{}`)}
	absent := answers(404, status(404, "NotFound", "not found", `"name":"a","kind":"pods"`))
	for why, c := range map[string]struct {
		request Request
		answers []func(http.ResponseWriter)
		want    Ended
		fails   bool
	}{
		"done":      {Request{Action: aPatch()}, []func(http.ResponseWriter){answers(200, podAt("5"))}, Ended{Result: Changed, Version: "5"}, false},
		"gone":      {Request{Action: other}, []func(http.ResponseWriter){absent}, Ended{Result: Gone}, false},
		"ends":      {Request{Action: apply}, []func(http.ResponseWriter){absent, answers(403, status(403, "Forbidden", "no", terminating))}, Ended{Result: Gone, Why: CauseTerminating, Namespace: "shop"}, false},
		"foreign":   {Request{Action: apply, Prunes: true}, []func(http.ResponseWriter){answers(200, podAt("5"))}, Ended{Result: Rejected, Why: CauseForeign}, true},
		"busy":      {Request{Action: aPatch()}, []func(http.ResponseWriter){answers(429, status(429, "TooManyRequests", "no", ""), "Retry-After", "7")}, Ended{Result: Failed, Why: CauseBusy, After: 7 * time.Second}, true},
		"namespace": {Request{Action: apply}, []func(http.ResponseWriter){absent, answers(404, status(404, "NotFound", "no", `"name":"shop","kind":"namespaces"`))}, Ended{Result: Failed, Why: CauseNamespace, Namespace: "shop"}, true},
		"changed":   {Request{Action: aPatch()}, []func(http.ResponseWriter){answers(409, status(409, "Conflict", "modified", "")), answers(200, podAt("5"))}, Ended{Result: Conflict, Why: CauseOther}, true},
	} {
		s := newServer(t, c.answers...)
		got, err := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil).One(t.Context(), c.request)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %+v, want %+v; %v", why, got, c.want, err)
		}
	}
}

// A Judge sees the object before anything is written, also the event's own one.
func TestJudgeSeesOwnObject(t *testing.T) {
	remove := handler.Action{Verb: handler.ActionDelete, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0"}
	s := newServer(t, answers(200, podAt("4")))
	called := false
	judge := func(context.Context, There) (string, error) {
		called = true
		return "", ErrLeave
	}
	got, err := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil).
		One(t.Context(), Request{Action: remove, Judge: judge})
	if err != nil || got.Result != Gone || !called || len(s.heard) != 1 {
		t.Errorf("%+v, %v; in %d requests", got, err, len(s.heard))
	}
}

// A second action on the event's own object builds on what the first has made of it.
func TestSequenceKnowsItsVersion(t *testing.T) {
	s := newServer(t, answers(200, podAt("5")), answers(200, podAt("6")))
	sequence := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil)
	for range 2 {
		if _, err := sequence.One(t.Context(), Request{Action: aPatch()}); err != nil {
			t.Fatal(err)
		}
	}
	if body := s.heard[1].body; !strings.Contains(body, `"resourceVersion":"5"`) {
		t.Error(body)
	}
}

// Targets have their requests at the same time, at most 8 of a rule, and the label and the number
// that the caller says.
func TestSequenceIsConcurrent(t *testing.T) {
	var mu sync.Mutex
	under, most := 0, 0
	s := newServer(t, func(w http.ResponseWriter) {
		mu.Lock()
		under++
		most = max(most, under)
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		under--
		mu.Unlock()
		answers(403, status(403, "Forbidden", "no", ""))(w)
	})
	s.observer = nil
	sequence := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil)
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			a := aPatch()
			a.Name = fmt.Sprint("web-", i)
			_, err := sequence.One(t.Context(), Request{Action: a, Label: "actions[3]", Number: i + 1})
			if err == nil || !strings.HasPrefix(err.Error(), "actions[3]: patch of v1/pods shop/"+a.Name+": 403") {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if most < 2 || most > perRule {
		t.Errorf("at most %d requests were under way", most)
	}
}

func TestSequencePrunes(t *testing.T) {
	s := newServer(t, answers(200, fmt.Sprintf(pods2, "")), answers(200, `{"kind":"Status","status":"Success"}`))
	_, err := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil).Prune(t.Context(), pods, "of=x",
		func(r schema.GroupVersionResource, key delta.Key) bool { return r == pods && key.Name == "a" })
	if err != nil || len(s.heard) != 2 || !strings.HasSuffix(s.heard[1].path, "/shop/pods/b") {
		t.Errorf("%+v %v", s.heard, err)
	}
}

// A Sequence that is told to stop while it waits makes no request, and a prune no more of them.
func TestSequenceStops(t *testing.T) {
	list, deleted := answers(200, fmt.Sprintf(pods2, "")), answers(200, `{"kind":"Status","status":"Success"}`)
	s := newServer(t, list, deleted)
	asked := 0
	sequence := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), func() bool { asked++; return asked > 2 })
	_, err := sequence.Prune(t.Context(), pods, "of=x", func(schema.GroupVersionResource, delta.Key) bool { return false })
	if !errors.Is(err, ErrStopped) || len(s.heard) != 2 {
		t.Errorf("prune: %d requests, %v", len(s.heard), err)
	}
	s.audit.Reset()
	if _, err := sequence.One(t.Context(), Request{Action: aPatch()}); !errors.Is(err, ErrStopped) || len(s.heard) != 2 {
		t.Errorf("patch: %d requests, %v", len(s.heard), err)
	}
	_, err = sequence.Prune(t.Context(), pods, "of=x", func(schema.GroupVersionResource, delta.Key) bool { return false })
	if !errors.Is(err, ErrStopped) || len(s.heard) != 2 || s.audit.Len() != 0 || s.limits.gate.busy != 0 {
		t.Errorf("then: %d requests, %v, %s", len(s.heard), err, s.audit.String())
	}
}

// What a prune returns says why its deletions failed. A webhook that refuses one, or is down, is no
// reason to leave out the others.
func TestSequenceSaysWhyAPruneFailed(t *testing.T) {
	down := answers(500, status(500, "InternalError", `Internal error occurred: failed calling webhook \"w.example.com\": refused`, ""))
	internal := answers(500, status(500, "InternalError", "the conversion webhook is down", ""))
	busy := answers(429, status(429, "TooManyRequests", "no", ""), "Retry-After", "7")
	list, deleted := answers(200, fmt.Sprintf(pods2, "")), answers(200, `{"kind":"Status","status":"Success"}`)
	for what, c := range map[string]struct {
		answers []func(http.ResponseWriter)
		want    Ended
		heard   int
	}{
		"a webhook is down":  {[]func(http.ResponseWriter){list, down, deleted}, Ended{Result: Failed, Why: CauseWebhookDown}, 3},
		"one cannot be read": {[]func(http.ResponseWriter){list, internal, deleted}, Ended{Result: Failed, Why: CauseBusy}, 3},
		"too much to do":     {[]func(http.ResponseWriter){list, busy, deleted}, Ended{Result: Failed, Why: CauseBusy, After: 7 * time.Second}, 2},
		"no list":            {[]func(http.ResponseWriter){busy}, Ended{Result: Failed, Why: CauseBusy, After: 7 * time.Second}, 1},
	} {
		s := newServer(t, c.answers...)
		got, err := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil).Prune(t.Context(), pods, "of=x",
			func(schema.GroupVersionResource, delta.Key) bool { return false })
		if got != c.want || err == nil || len(s.heard) != c.heard {
			t.Errorf("%s: %+v after %d requests, want %+v; %v", what, got, len(s.heard), c.want, err)
		}
	}
}
