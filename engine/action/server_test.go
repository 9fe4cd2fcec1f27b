package action

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/plugins/handler"
)

// heard is a request that the server received.
type heard struct {
	method, path, query, body string
	header                    http.Header
}

// server gives the answers of a test, and knows v1/pods and v1/nodes.
type server struct {
	*Executor
	t      *testing.T
	writes *Writes

	mu      sync.Mutex
	answers []func(w http.ResponseWriter) // the server repeats the last one
	heard   []heard
	results []Done
	audit   bytes.Buffer
}

func newServer(t *testing.T, answers ...func(w http.ResponseWriter)) *server {
	s := &server{t: t, answers: answers, writes: NewWrites()}
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	config := &rest.Config{Host: listener.URL + "/prefix"}
	var err error
	s.Executor, err = New(config, listener.Client(), discoveryStub{}, time.Now, Options{
		Writes: s.writes, Logger: slog.New(slog.NewTextHandler(&s.audit, nil)), Observer: func(d Done) { s.results = append(s.results, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.heard = append(s.heard, heard{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header})
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	answer(w)
}

// patched makes the executor patch the object of an event.
func (s *server) patched() error {
	return s.Do(s.t.Context(), By{Rule: "r", Handler: "h"}, anEvent(), []handler.Action{aPatch()})
}

func anEvent() *handler.Event {
	return &handler.Event{
		ID: "r/u/updated/4", Rule: "r", Event: handler.Updated, Attempt: 2, Resource: handler.Resource(pods),
		Namespace: "shop", Name: "web-0", UID: "u", ResourceVersion: "4",
	}
}

func aPatch() handler.Action {
	return handler.Action{
		Verb: handler.ActionPatch, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", Patch: []byte(`{"hush":"secret"}`),
	}
}

func answers(code int, body string, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// podAt returns a Pod's metadata at a version.
func podAt(version string) string {
	return `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web-0","namespace":"shop","uid":"u","resourceVersion":"` + version + `"}}`
}

func status(code int, reason metav1.StatusReason, message, details string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%s,"details":{%s}}`, code, reason, text(message), details)
}

// discoveryStub serves v1/pods and v1/nodes.
type discoveryStub struct {
	discovery.ServerResourcesInterfaceWithContext
}

func (discoveryStub) ServerResourcesForGroupVersionWithContext(_ context.Context, gv string) (*metav1.APIResourceList, error) {
	if gv != "v1" {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "pods", Kind: "Pod", Namespaced: true}, {Name: "nodes", Kind: "Node"}, {Name: "pods/status", Kind: "Pod", Namespaced: true},
	}}, nil
}

func TestOutcomes(t *testing.T) {
	const forbidden = `pods "web-0" is forbidden: User "informd" cannot patch resource "pods"`
	huge := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		why     string
		answers []func(http.ResponseWriter)
		result  Result
		is      error // what the error wraps; nil beside a result other than success means another try
		after   time.Duration
		says    string
	}{
		{"done", []func(http.ResponseWriter){answers(200, podAt("5"))}, Changed, nil, 0, ""},
		{"done already", []func(http.ResponseWriter){answers(200, podAt("4"))}, Unchanged, nil, 0, ""},
		{"an object of its own, not its metadata", []func(http.ResponseWriter){answers(200, `{"kind":"Pod","metadata":{"uid":"u","resourceVersion":"5"},"details":7,"spec":[]}`)}, Changed, nil, 0, ""},
		{"gone", []func(http.ResponseWriter){answers(404, status(404, "NotFound", "not found", `"name":"web-0","kind":"pods"`))}, Gone, nil, 0, ""},
		{"changed", []func(http.ResponseWriter){answers(409, status(409, "Conflict", "modified", "")), answers(200, podAt("5"))}, Conflict, ErrConflict, 0, "it has changed since the event"},
		{"invalid, because changed", []func(http.ResponseWriter){answers(422, status(422, "Invalid", "x", "")), answers(200, podAt("5"))}, Conflict, ErrConflict, 0, ""},
		{"another object by now", []func(http.ResponseWriter){answers(422, status(422, "Invalid", "uid", "")), answers(200, strings.Replace(podAt("5"), `"u"`, `"v"`, 1))}, Gone, nil, 0, ""},
		{"a conflict over something else", []func(http.ResponseWriter){answers(409, status(409, "Conflict", "quota", "")), answers(200, podAt("4"))}, Failed, nil, 0, "quota"},
		{"a conflict, then the server is unavailable", []func(http.ResponseWriter){answers(409, status(409, "Conflict", "x", "")), answers(503, "")}, Failed, nil, 0, "503"},
		{"invalid", []func(http.ResponseWriter){answers(422, status(422, "Invalid", "spec: Required value", "")), answers(200, podAt("4"))}, Rejected, handler.ErrReject, 0, "spec: Required value"},
		{"a bad request", []func(http.ResponseWriter){answers(400, status(400, "BadRequest", "no", "")), answers(200, podAt("4"))}, Rejected, handler.ErrReject, 0, "400 Bad Request: no"},
		{"too large", []func(http.ResponseWriter){answers(413, "large"), answers(200, podAt("4"))}, Rejected, handler.ErrReject, 0, "413"},
		{"an apply that is not of the schema", []func(http.ResponseWriter){
			answers(500, status(500, "", `failed to create typed patch object (shop/web-0; /v1, Kind=Pod): .spec.x: expected string, got &value.valueUnstructured{Value:"hush"}`, "")), answers(200, podAt("4"))}, Rejected, handler.ErrReject, 0, ".spec.x: expected string"},
		{"forbidden", []func(http.ResponseWriter){answers(403, status(403, "Forbidden", forbidden, `"name":"web-0","kind":"pods"`))}, Failed, nil, 0, "403 Forbidden: " + forbidden},
		{"a namespace that is going", []func(http.ResponseWriter){answers(403, status(403, "Forbidden", "x", `"causes":[{"reason":"NamespaceTerminating"}]`))}, Gone, nil, 0, ""},
		{"credentials that ran out", []func(http.ResponseWriter){answers(401, status(401, "Unauthorized", "Unauthorized", ""))}, Failed, nil, 0, "401"},
		{"too many requests", []func(http.ResponseWriter){answers(429, "slow down", "Retry-After", "7")}, Failed, nil, 7 * time.Second, "429"},
		{"a disruption budget", []func(http.ResponseWriter){answers(429, status(429, "TooManyRequests", "budget", `"retryAfterSeconds":9`))}, Failed, nil, 9 * time.Second, "budget"},
		{"a server that asks for a year", []func(http.ResponseWriter){answers(503, "", "Retry-After", "31536000")}, Failed, nil, maxRetryAfter, "503"},
		{"or for more than a number holds", []func(http.ResponseWriter){answers(503, "", "Retry-After", "99999999999999999999")}, Failed, nil, 0, "503"},
		{"or for time back", []func(http.ResponseWriter){answers(503, "", "Retry-After", "-5")}, Failed, nil, 0, "503"},
		{"a broken server", []func(http.ResponseWriter){answers(500, status(500, "InternalError", "etcd", ""))}, Failed, nil, 0, "etcd"},
		{"a proxy", []func(http.ResponseWriter){answers(502, "<html>hush</html>")}, Failed, nil, 0, "502 Bad Gateway"},
		{"a proxy that says yes", []func(http.ResponseWriter){answers(200, "<html>hush</html>")}, Failed, nil, 0, "proxy"},
		{"yes, and nothing", []func(http.ResponseWriter){answers(200, "")}, Failed, nil, 0, "proxy"},
		{"yes, and JSON of something", []func(http.ResponseWriter){answers(200, `{"metadata":7}`)}, Failed, nil, 0, "proxy"},
		{"a page that is not there", []func(http.ResponseWriter){answers(404, "404 page not found")}, Failed, nil, 0, "does not serve v1/pods"},
		{"an invalid code", []func(http.ResponseWriter){answers(799, "")}, Failed, nil, 0, "799"},
		{"a redirection to nowhere", []func(http.ResponseWriter){answers(301, "")}, Failed, nil, 0, ""},
		{"a Status with everything wrong", []func(http.ResponseWriter){answers(409, `{"kind":"Status","details":{"causes":7}}`), answers(200, podAt("4"))}, Failed, nil, 0, "409"},
		{"an answer without end", []func(http.ResponseWriter){func(w http.ResponseWriter) {
			for {
				if _, err := io.WriteString(w, huge); err != nil {
					return
				}
			}
		}}, Failed, nil, 0, "more than 32 MiB"},
		{"a refusal without end", []func(http.ResponseWriter){func(w http.ResponseWriter) {
			w.WriteHeader(503)
			for {
				if _, err := io.WriteString(w, huge); err != nil {
					return
				}
			}
		}}, Failed, nil, 0, "503"},
		{"a connection that breaks", []func(http.ResponseWriter){func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }}, Failed, nil, 0, "cannot be reached"},
		{"one that breaks in the middle", []func(http.ResponseWriter){func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, podAt("5"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}}, Failed, nil, 0, "broke off"},
		{"a message to break the log", []func(http.ResponseWriter){answers(403, status(403, "Forbidden", "a\nlevel=INFO msg=\u202efaked\x1b[2J "+huge, ""))}, Failed, nil, 0, "403 Forbidden: a level=INFO"},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := newServer(t, c.answers...)
			err := s.patched()
			if len(s.results) != 1 || s.results[0].Result != c.result {
				t.Fatalf("results %+v, want %s (%v)", s.results, c.result, err)
			}
			fine := c.result == Changed || c.result == Unchanged || c.result == Gone
			switch {
			case fine != (err == nil):
				t.Errorf("result %s: got error %v", c.result, err)
			case c.is != nil && !errors.Is(err, c.is):
				t.Errorf("%v does not wrap %v", err, c.is)
			case c.is == nil && (errors.Is(err, handler.ErrReject) || errors.Is(err, ErrConflict)):
				t.Errorf("%v does not lead to another try", err)
			}
			if after, _ := handler.RetryDelay(err); after != c.after {
				t.Errorf("the retry delay is %v, want %v", after, c.after)
			}
			if err != nil && (!strings.Contains(err.Error(), "actions[0]: patch of v1/pods shop/web-0: ") || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if text := fmt.Sprint(err, &s.audit); strings.ContainsAny(fmt.Sprint(err), "\n\x1b\u202e") || strings.Contains(text, "hush") || len(text) > 3000 {
				t.Errorf("not fit for a log: %.3000q", text)
			}
			if s.Writes().Writing(pods, web0, "", math.MaxUint64) {
				t.Error("the write has not ended")
			}
			if _, known := s.writes.Of(pods, web0, "5"); known != (c.result == Changed) {
				t.Errorf("version 5 is the rule's own: %v", known)
			}
		})
	}
}

func (s *server) Writes() *Writes { return s.writes }

func TestRequests(t *testing.T) {
	apply := handler.Action{Verb: handler.ActionApply, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", Object: []byte(`{"metadata":{"labels":{"n":9007199254740993}}}`)}
	status := apply
	status.Subresource = "status"
	operations := aPatch()
	operations.PatchType, operations.Patch = handler.JSONPatch, []byte(`[{"op":"remove","path":"/x"}]`)
	remove := handler.Action{Verb: handler.ActionDelete, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0"}
	create := handler.Action{Verb: handler.ActionCreate, Resource: handler.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}), Name: "a:b c", Object: []byte(`{}`)}
	other := aPatch()
	other.Name, other.ResourceVersion, other.UID = "a b:c", "9", "w"
	const shop, managed = "/prefix/api/v1/namespaces/shop/pods/", "fieldManager=informd%2Fr&fieldValidation=Strict"
	for _, c := range []struct {
		action      handler.Action
		method      string
		path, query string
		kind, body  string
	}{
		{apply, "PATCH", shop + "web-0", managed + "&force=true", "application/apply-patch+yaml",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"n":9007199254740993},"name":"web-0","namespace":"shop","resourceVersion":"4","uid":"u"}}`},
		{status, "PATCH", shop + "web-0/status", managed + "&force=true", "application/apply-patch+yaml",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"n":9007199254740993},"name":"web-0","namespace":"shop","resourceVersion":"4","uid":"u"}}`},
		{aPatch(), "PATCH", shop + "web-0", managed, "application/merge-patch+json",
			`{"hush":"secret","metadata":{"resourceVersion":"4","uid":"u"}}`},
		{operations, "PATCH", shop + "web-0", managed, "application/json-patch+json",
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/resourceVersion","value":"4"},{"op":"remove","path":"/x"}]`},
		{other, "PATCH", shop + "a%20b:c", managed, "application/merge-patch+json", `{"hush":"secret","metadata":{"resourceVersion":"9","uid":"w"}}`},
		{remove, "DELETE", shop + "web-0", "", "application/json",
			`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"4","uid":"u"},"propagationPolicy":"Background"}`},
		{create, "POST", "/prefix/api/v1/nodes", managed, "application/json", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a:b c"}}`},
	} {
		s := newServer(t, answers(200, podAt("5")))
		if err := s.Do(t.Context(), By{Rule: "r", Handler: "h"}, anEvent(), []handler.Action{c.action}); err != nil {
			t.Error(err)
		}
		got := s.heard[0]
		if len(s.heard) != 1 || got.method != c.method || got.path != c.path || got.query != c.query || got.body != c.body {
			t.Errorf("%s: %d requests, the first %s %s?%s\n%s\nwant %s %s?%s\n%s",
				what(c.action), len(s.heard), got.method, got.path, got.query, got.body, c.method, c.path, c.query, c.body)
		}
		if got.header.Get("Content-Type") != c.kind || got.header.Get("Accept") != metadataOnly {
			t.Errorf("%s: %v", what(c.action), got.header)
		}
	}
}

// The first failure ends the answer. A retry begins the same answer again, and knows which changes
// the rule made itself.
func TestFirstFailureEndsTheAnswer(t *testing.T) {
	s := newServer(t, answers(200, podAt("5")), answers(500, ""), answers(200, podAt("5")), answers(200, podAt("6")), answers(200, podAt("7")))
	do := []handler.Action{aPatch(), aPatch(), aPatch()}
	if err := s.Do(t.Context(), By{Rule: "r", Handler: "h"}, anEvent(), do); err == nil || !strings.HasPrefix(err.Error(), "actions[1]: ") {
		t.Errorf("the second action fails: %v", err)
	}
	if err := s.Do(t.Context(), By{Rule: "r", Handler: "h"}, anEvent(), do); err != nil {
		t.Error(err)
	}
	var versions []string
	for _, h := range s.heard {
		_, after, _ := strings.Cut(h.body, `"resourceVersion":"`)
		version, _, _ := strings.Cut(after, `"`)
		versions = append(versions, version)
	}
	if got := strings.Join(versions, " "); got != "4 5 5 5 6" {
		t.Errorf("the patches start from versions %s, want 4 5 5 5 6", got)
	}
}

func TestPendingWritesAreKnown(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter) {
		close(asked)
		<-answer
		answers(200, podAt("5"))(w)
	})
	ended := make(chan error, 1)
	go func() { ended <- s.patched() }()
	<-asked
	if !s.writes.Writing(pods, web0, "r", math.MaxUint64) || s.writes.Writing(pods, web0, "other", math.MaxUint64) {
		t.Error("Writing is false for the rule while its request is under way")
	}
	close(answer)
	s.writes.Wait(t.Context(), pods, web0)
	if w, known := s.writes.Of(pods, web0, "5"); !known || w.Rule != "r" || w.Depth != 1 {
		t.Errorf("what it made: %+v %v", w, known)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(http.ResponseWriter) {
		close(asked)
		<-release
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Do(ctx, By{Rule: "r", Handler: "h"}, anEvent(), []handler.Action{aPatch()}) }()
	<-asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, handler.ErrReject) {
		t.Errorf("got %v, want that the context is cancelled", err)
	}
	close(release)
	if s.writes.Writing(pods, web0, "", math.MaxUint64) {
		t.Error("the write has not ended")
	}
}

func TestAudit(t *testing.T) {
	s := newServer(t, answers(200, podAt("5")))
	if err := s.patched(); err != nil {
		t.Fatal(err)
	}
	want := "level=INFO msg=action rule=r handler=h verb=patch resource=v1/pods namespace=shop name=web-0 result=done code=200 resourceVersion=5 id=r/u/updated/4 attempt=2 duration="
	if got := s.audit.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
		t.Errorf("the audit log is\n%s\nwant one line with\n%s", got, want)
	}
	if d := s.results[0]; d.Code != 200 || d.ResourceVersion != "5" || d.Delivery != "r/u/updated/4" || d.Attempt != 2 || d.Handler != "h" {
		t.Errorf("the result is %+v", d)
	}
}
