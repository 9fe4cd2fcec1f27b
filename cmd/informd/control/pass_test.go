package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/replica"
)

// leads begins a server that leads with b, and returns what replicas that follow know.
func leads(t *testing.T, b Backend) (s *Server, known *Replicas) {
	t.Helper()
	serveWith(t, b, Options{Replicas: &Replicas{Name: "a"}}, func(made *Server) { s = made })
	return s, follows(t, s.AnswerPassed)
}

// follows returns what a replica knows that passes on to a leader with answer.
func follows(t *testing.T, answer http.HandlerFunc) *Replicas {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer, ReadTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return &Replicas{
		Name: "b", Leader: func() string { return "a" },
		Status: func(context.Context) Cluster { return Cluster{Leader: "a", Stale: true} },
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var dialer net.Dialer
				return dialer.DialContext(ctx, "tcp", listener.Addr().String())
			},
		},
	}
}

// wantError checks the code of a server's error, and a part of its message.
func wantError(t *testing.T, err error, code int, part string) {
	t.Helper()
	said, ok := errors.AsType[*Error](err)
	if !ok || said.Code != code || !strings.Contains(said.Message, part) {
		t.Errorf("got %v (%+v), want %d and %q", err, said, code, part)
	}
}

func TestAFollowerPassesRequestsOn(t *testing.T) {
	t.Parallel()
	b := newBackend()
	b.letters = []Letter{letter("one", "crashes"), letter("two", "crashes")}
	o := parse(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"large"},"data":"`+
		strings.Repeat("x", 64<<10)+`"}`)
	b.objects.Objects = slices.Repeat([]*object.Object{o}, 300)
	_, known := leads(t, b)
	c, socket := serveWith(t, nil, Options{Replicas: known})
	ctx := t.Context()
	if status, err := c.Status(ctx); err != nil || status.Version != "v9" {
		t.Errorf("status: %+v, %v", status, err)
	}
	if letters, err := c.Letters(ctx, "", ""); err != nil || len(letters) != 2 {
		t.Errorf("letters: %+v, %v", letters, err)
	}
	if o, err := c.Retry(ctx, LetterChoice{IDs: []string{"one"}}); err != nil || o.Done != 1 {
		t.Errorf("retry: %+v, %v", o, err)
	}
	if err := c.Pause(ctx, "crashes"); err != nil || !b.paused["crashes"] || b.pending != 0 {
		t.Errorf("pause: %v; paused: %v, not written: %d", err, b.paused, b.pending)
	}
	wantError(t, c.Pause(ctx, "crash"), http.StatusNotFound, "there are: crashes")
	objects, err := c.Objects(ctx, Query{Source: "pods"}, false)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range objects.All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if _ = objects.Close(); n != 300 {
		t.Errorf("%d objects", n)
	}
	// What is about this replica, it answers itself.
	if status, err := c.Cluster(ctx); err != nil || status.Leader != "a" {
		t.Errorf("cluster status: %+v, %v", status, err)
	}
	// Bounds of requests hold here, too; without a length they show late.
	r, err := http.NewRequestWithContext(ctx, "POST", "http://informd/v1/rules/pause",
		io.LimitReader(blank{}, maxBody+1))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := raw(socket).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("too large a request: %s", answer.Status)
	}
}

// blank is an endless reader of spaces.
type blank struct{}

func (blank) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// What was passed on is not passed on again, even if two replicas think that the other leads.
func TestNothingIsPassedOnTwice(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s, known := leads(t, nil)
	s.replicas.Leader = func() string { return "b" }
	known.Transport = counting{known.Transport, &asked}
	s.replicas.Transport = known.Transport
	c, _ := serveWith(t, nil, Options{Replicas: known})
	wantError(t, c.Pause(t.Context(), "crashes"), http.StatusServiceUnavailable, "Nothing was done: try again")
	if n := asked.Load(); n != 1 {
		t.Errorf("passed on %d times", n)
	}
}

// counting counts requests.
type counting struct {
	http.RoundTripper
	count *atomic.Int32
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// failing fails each request.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestAFollowerWithoutALeader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leader   string
		err      error
		get, set string // parts of what is said
	}{
		"none":        {"", nil, "b knows no replica that leads", "Nothing was done"},
		"itself":      {"b", nil, "just starting or ceasing to lead", "Nothing was done: try"},
		"unreachable": {"a", fmt.Errorf("%w: no route", replica.ErrUnreachable), "no route", "Nothing was done: try"},
		"lost":        {"a", io.ErrUnexpectedEOF, "got no answer: unexpected EOF. Try again", "a may have done what you asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			known := &Replicas{
				Name: "b", Leader: func() string { return c.leader }, Transport: failing{c.err},
				Status: func(context.Context) Cluster { return Cluster{Stale: true} },
			}
			client, _ := serveWith(t, nil, Options{Replicas: known})
			_, err := client.Status(t.Context())
			wantError(t, err, http.StatusServiceUnavailable, c.get)
			wantError(t, client.Pause(t.Context(), "crashes"), http.StatusServiceUnavailable, c.set)
			if status, err := client.Cluster(t.Context()); err != nil || !status.Stale {
				t.Errorf("cluster status: %+v, %v", status, err)
			}
		})
	}
}

// The time to read a request does not bound its answer, and the end of a command reaches the leader.
func TestPassedRequestsMayTakeLong(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	began, ended := make(chan struct{}), make(chan struct{})
	b := newBackend()
	b.reload = func(ctx context.Context, name string) (Reloaded, error) {
		if name == "long" {
			time.Sleep(3 * limit)
			return Reloaded{PID: 7}, ctx.Err()
		}
		close(began)
		<-ctx.Done()
		close(ended)
		return Reloaded{}, ctx.Err()
	}
	b.status = func() Status {
		time.Sleep(3 * limit)
		return Status{Version: "late"}
	}
	_, known := leads(t, b)
	c, _ := serveWith(t, nil, Options{Replicas: known}, func(s *Server) { s.http.ReadTimeout = limit })
	if r, err := c.ReloadHandler(t.Context(), "long"); err != nil || r.PID != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	if s, err := c.Status(t.Context()); err != nil || s.Version != "late" {
		t.Errorf("%+v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.ReloadHandler(ctx, "oncall")
		done <- err
	}()
	<-began
	cancel()
	<-ended
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// An answer that breaks off on its way is not taken for a whole one.
func TestAPassedAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	known := follows(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"id":"one"}`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	c, _ := serveWith(t, nil, Options{Replicas: known})
	if letters, err := c.Letters(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("%+v, %v", letters, err)
	}
}

func TestPassedRequestsAreBounded(t *testing.T) {
	t.Parallel()
	s, known := leads(t, newBackend())
	c, _ := serveWith(t, nil, Options{Replicas: known})
	for range maxPassed {
		s.passed <- struct{}{}
	}
	wantError(t, c.Pause(t.Context(), "crashes"), http.StatusServiceUnavailable, "answers 32 requests of others")
	for range maxPassed {
		<-s.passed
	}
	if err := c.Pause(t.Context(), "crashes"); err != nil {
		t.Error(err)
	}
	// A leader may have no place for its socket.
	s = nil
	c, _ = serveWith(t, nil, Options{Replicas: follows(t, s.AnswerPassed)})
	wantError(t, c.Pause(t.Context(), "crashes"), http.StatusServiceUnavailable, "no control socket")
}

// A leader whose informd is newer or older says which command it wants.
func TestAFollowerPassesOnWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	_, known := leads(t, newBackend())
	_, socket := serveWith(t, nil, Options{Replicas: known})
	answer, err := raw(socket).Get("http://informd/v7/new")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound || !strings.Contains(string(text), "(v9) does not know") {
		t.Errorf("%s %s", answer.Status, text)
	}
}
