package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/object"
)

func TestStatus(t *testing.T) {
	b := newBackend()
	c, _ := serve(t, b)
	got, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.Status(), got); diff != "" {
		t.Error(diff)
	}
}

func TestObjects(t *testing.T) {
	b := newBackend()
	text := `{"metadata":{"namespace":"shop","name":"web-0","uid":"u","resourceVersion":"7","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a":"<b>"}}}`
	b.objects = Found{Kept: []string{"spec"}, Objects: []*object.Object{parse(t, text), parse(t, `{"metadata":{"name":"bare"}}`)}}
	c, _ := serve(t, b)
	selector, err := labels.Parse("a in (b,c),!d")
	if err != nil {
		t.Fatal(err)
	}
	q := Query{Source: "pods", Namespace: "shop", Name: "web/0&x=y", Selector: selector, Index: "byNode", Value: "n 1%2F"}

	rows, err := c.Rows(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	if diff := cmp.Diff(Header{Resource: "v1/pods", State: "synced", Kept: []string{"spec"}, Count: 2}, rows.Header); diff != "" {
		t.Error(diff)
	}
	got := collect(t, rows)
	if got[0].Created.Unix() != 1767323045 || got[0].Labels["a"] != "<b>" || got[0].UID != "u" || got[0].ResourceVersion != "7" {
		t.Errorf("got %+v", got[0])
	}
	if got[1].Name != "bare" || !got[1].Created.IsZero() {
		t.Errorf("got %+v", got[1])
	}
	asked := b.asked[0]
	if asked.Selector.String() != selector.String() {
		t.Errorf("the selector came as %s", asked.Selector)
	}
	asked.Selector, q.Selector = nil, nil
	if diff := cmp.Diff(q, asked); diff != "" {
		t.Error(diff)
	}

	objects, err := c.Objects(t.Context(), q, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	if got := collect(t, objects); string(got[0]) != text+"\n" {
		t.Errorf("got %s", got[0])
	}
	names, err := c.Names(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = names.Close() }()
	if diff := cmp.Diff([]Row{{Namespace: "shop", Name: "web-0"}, {Name: "bare"}}, collect(t, names)); diff != "" {
		t.Error(diff)
	}
}

func collect[T any](t *testing.T, s *Stream[T]) (all []T) {
	t.Helper()
	for v, err := range s.All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func TestSecretsAreMaskedByTheServer(t *testing.T) {
	b := newBackend()
	b.objects = Found{Secret: true, Objects: []*object.Object{parse(t, `{"metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="}}`)}}
	secret := letter("secret/1", "crashes")
	secret.Secret, secret.Reason = true, "hunter2 is wrong"
	secret.Event.Object, secret.Event.Payload = json.RawMessage(`{"data":{"password":"aHVudGVyMg=="}}`), json.RawMessage(`{"hunter2":1}`)
	b.letters = []Letter{secret}
	c, _ := serve(t, b)
	for _, show := range []bool{false, true} {
		var seen strings.Builder
		objects, err := c.Objects(t.Context(), Query{Source: "secrets"}, show)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range collect(t, objects) {
			seen.Write(o)
		}
		_ = objects.Close()
		if got := strings.Contains(seen.String(), "aHVudGVyMg=="); got != show {
			t.Errorf("asked to show: %v; %s", show, seen.String())
		}
		l, err := c.Letter(t.Context(), "secret/1", show)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(l)
		for _, value := range []string{"aHVudGVyMg==", "hunter2 is", `"hunter2"`} {
			if got := strings.Contains(string(text), value); got != show {
				t.Errorf("asked to show: %v; %q in %s", show, value, text)
			}
		}
	}
	if l, err := c.Letters(t.Context(), "", ""); err != nil || l[0].Reason != "***" {
		t.Errorf("listed %+v, %v", l, err)
	}
	if b.letters[0].Event.Payload == nil || string(b.letters[0].Event.Payload) == "***" {
		t.Error("the daemon's own letter was masked")
	}
}

func TestLetters(t *testing.T) {
	b := newBackend()
	slashed := "crashes/6f/../%2e//x y/&id=z/12"
	b.letters = []Letter{letter("crashes/1", "crashes"), letter(slashed, "crashes"), letter("gone/1", "gone")}
	c, _ := serve(t, b)
	ids := func(rule, handler string) (ids []string) {
		t.Helper()
		letters, err := c.Letters(t.Context(), rule, handler)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range letters {
			ids = append(ids, l.ID)
		}
		return ids
	}
	if diff := cmp.Diff([]string{"crashes/1", slashed, "gone/1"}, ids("", "oncall")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"gone/1"}, ids("gone", "")); diff != "" {
		t.Error("of a rule that is gone: " + diff)
	}
	if got := ids("quiet", ""); got != nil {
		t.Errorf("of a rule that has none: %q", got)
	}
	l, err := c.Letter(t.Context(), slashed, false)
	if diff := cmp.Diff(b.letters[1], l); err != nil || diff != "" {
		t.Error(err, diff)
	}

	b.stuck["gone/1"] = true
	got, err := c.Retry(t.Context(), LetterChoice{IDs: []string{"gone/1", "never/1", slashed, slashed}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Done != 1 || len(got.Failures) != 2 || got.Failures[0].Error != `letter "gone/1" is stuck` ||
		!strings.HasPrefix(got.Failures[1].Error, `no dead letter "never/1"`) {
		t.Errorf("got %+v", got)
	}
	b.stuck["gone/1"] = false
	if got, err := c.Drop(t.Context(), LetterChoice{Rule: "gone"}); err != nil || got.Done != 1 || got.Failures != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := c.Drop(t.Context(), LetterChoice{All: true}); err != nil || got.Done != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := c.Drop(t.Context(), LetterChoice{Handler: "oncall"}); err != nil || got.Done != 0 {
		t.Errorf("nothing is left: got %+v, %v", got, err)
	}
}

func TestPause(t *testing.T) {
	b := newBackend()
	c, _ := serve(t, b)
	if err := c.Pause(t.Context(), "crashes"); err != nil || !b.paused["crashes"] {
		t.Error(err)
	}
	if err := c.Resume(t.Context(), "crashes"); err != nil || b.paused["crashes"] {
		t.Error(err)
	}
}

// The error about a request says what to do.
func TestErrors(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, newBackend())
	act := func(choice LetterChoice) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.Drop(ctx, choice)
			return err
		}
	}
	query := func(q Query) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.Rows(ctx, q)
			return err
		}
	}
	tests := []struct {
		name string
		ask  func(context.Context) error
		code int
		want string
	}{
		{"an unknown source", query(Query{Source: "pod"}), http.StatusNotFound, `no source "pod"; did you mean pods? (there are: pods, secrets)`},
		{"an unknown index", query(Query{Source: "pods", Index: "bynode"}), http.StatusNotFound, `no index of source pods is called "bynode"; did you mean byNode? (there are: byImage, byNode)`},
		{"a source without indexes", query(Query{Source: "secrets", Index: "x"}), http.StatusNotFound, `no index of source secrets is called "x" (there is none)`},
		{"an unknown rule", func(ctx context.Context) error { return c.Pause(ctx, "crahses") }, http.StatusNotFound, `no rule "crahses"; did you mean crashes? (there are: crashes, quiet)`},
		{"a rule by its former name", func(ctx context.Context) error { return c.Pause(ctx, "calm") }, http.StatusNotFound, "the rule calm is called quiet now"},
		{"letters of a rule by its former name", func(ctx context.Context) error { _, err := c.Letters(ctx, "calm", ""); return err }, http.StatusNotFound, "the rule calm is called quiet now"},
		{"letters of an unknown rule", func(ctx context.Context) error { _, err := c.Letters(ctx, "quite", ""); return err }, http.StatusNotFound, `no rule "quite"; did you mean quiet? (there are: crashes, quiet)`},
		{"letters of an unknown handler", act(LetterChoice{Handler: "on-call"}), http.StatusNotFound, `no handler "on-call"; did you mean oncall? (there are: idle, oncall)`},
		{"an unknown letter", func(ctx context.Context) error { _, err := c.Letter(ctx, "x", false); return err }, http.StatusNotFound, `no dead letter "x"; informd dead list -o wide shows them. It may have been retried or dropped, or have made room for newer ones`},
		{"no choice", act(LetterChoice{}), http.StatusBadRequest, "choose dead letters in exactly one way: by ids, by rule, by handler, or all"},
		{"two choices", act(LetterChoice{All: true, Rule: "quiet"}), http.StatusBadRequest, "choose dead letters in exactly one way: by ids, by rule, by handler, or all"},
		{"more than fits", act(LetterChoice{IDs: []string{strings.Repeat("x", maxBody)}}), http.StatusRequestEntityTooLarge, "the request is larger than 4 MiB: ask for less at a time"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.ask(t.Context())
			got, ok := errors.AsType[*Error](err)
			if !ok || got.Code != test.code || got.Message != test.want {
				t.Errorf("got %v, want %d %s", err, test.code, test.want)
			}
		})
	}
}

func TestNoServerListens(t *testing.T) {
	dir := shortDir(t)
	_, err := NewClient(dir + "/control.sock").Status(t.Context())
	if !errors.Is(err, ErrNotRunning) || err.Error() != "no informd is running on "+dir+"/control.sock" {
		t.Errorf("got %v", err)
	}
	left(t, dir+"/left.sock")
	if _, err := NewClient(dir + "/left.sock").Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a socket that a dead daemon left: %v", err)
	}
	long := dir + "/" + strings.Repeat("x", 200)
	if _, err := NewClient(long).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a path that is too long: %v", err)
	}
}

func TestAbandonedStream(t *testing.T) {
	t.Parallel()
	b := newBackend()
	o := parse(t, `{"metadata":{"name":"a"}}`)
	b.objects.Objects = slices.Repeat([]*object.Object{o}, 10_000)
	c, _ := serve(t, b)
	rows, err := c.Rows(t.Context(), Query{Source: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	for range rows.All() {
		break
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
}

// The client recognises another program's socket.
func TestOtherProgramListens(t *testing.T) {
	tests := []struct{ name, answer, want string }{
		{"no HTTP", "220 mail.example ESMTP\r\n", "malformed HTTP"},
		{"another server", "HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n", "answers 403 Forbidden: is it informd's control socket?"},
		{"another server's JSON", "HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\n\r\n{\"status\":404}", "is it informd's control socket?"},
		{"no JSON", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "broke off"},
		{"half an answer", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"version\":", "broke off: unexpected EOF"},
		{"nothing", "", "closed the connection without an answer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			socket := filepath.Join(shortDir(t), "other.sock")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, test.answer)
				_ = conn.Close()
			}()
			if _, err := NewClient(socket).Status(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
