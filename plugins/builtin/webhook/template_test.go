package webhook

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// received is what a server got.
type received struct {
	uri, body string
	header    http.Header
}

// receive starts a server that takes everything, and returns its URL and what it got last.
func receive(t *testing.T) (string, *received) {
	t.Helper()
	got := new(received)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*got = received{r.RequestURI, string(body), r.Header}
	})
	return server.URL, got
}

func withPayload(payload string) handler.Event {
	ev := change
	ev.Object, ev.Old, ev.Payload = nil, nil, json.RawMessage(payload)
	return ev
}

func TestPayloadIsTheBody(t *testing.T) {
	url, got := receive(t)
	h := configured(t, values{"url": url, "format": "payload"})
	const payload = `{"text":"<a&b>","n":9007199254740993}`
	if _, err := h.Handle(t.Context(), withPayload(payload)); err != nil {
		t.Error(err)
	}
	if got.body != payload || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s as %s", got.body, got.header.Get("Content-Type"))
	}
	_, err := h.Handle(t.Context(), change)
	if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "rule all has no payload") {
		t.Errorf("without a payload: %v", err)
	}
}

func TestTemplates(t *testing.T) {
	url, got := receive(t)
	secret := file(t, "first\n")
	h := configured(t, values{
		"url":     url + "/${secrets.key}/${payload.repo}?q=${payload.q}",
		"secrets": values{"key": secret},
		"headers": values{"Authorization": "token ${secrets.key}", "X-Attempt": "${attempt}", "X-None": "${payload.none}"},
		"format":  "template",
		"body": values{
			"a_whole": "${payload.n}", "b_text": "${rule} ${event} ${namespace}/${name} of ${resource.resource}",
			"c_none": "${payload.none}", "d_list": []any{"${payload.list}", "${payload.none}", 1.50, true, nil},
			"e_secret": "${secrets.key}", "f_plain": "$${x}", "g_id": "${id}", "h_old": "${old == nil}",
		},
	})
	ev := withPayload(`{"n":9007199254740993,"repo":"a/../b","q":"1&x=2","list":[1,{"a":null}]}`)
	if _, err := h.Handle(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
	want := `{"a_whole":9007199254740993,"b_text":"all updated shop/web of deployments","d_list":[[1,{"a":null}],1.5,true,null],` +
		`"e_secret":"first","f_plain":"${x}","g_id":"all/u1/updated/7","h_old":true}`
	if diff := cmp.Diff(want, got.body); diff != "" {
		t.Errorf("body (-want +got)\n%s", diff)
	}
	if got.uri != "/first/a%2F..%2Fb?q=1%26x%3D2" {
		t.Errorf("URI %s", got.uri)
	}
	if h := got.header; h.Get("Authorization") != "token first" || h.Get("X-Attempt") != "2" || h.Values("X-None") != nil {
		t.Errorf("headers %v", h)
	}
	write(t, secret, "second")
	if _, err := h.Handle(t.Context(), ev); err != nil || got.header.Get("Authorization") != "token second" {
		t.Errorf("after a rotation: %v, %v", err, got.header)
	}
}

func TestObjectAndAttachedInTemplates(t *testing.T) {
	url, got := receive(t)
	h := configured(t, values{"url": url, "format": "template", "body": "${ {n: object.n, old: old, pods: map(attached.pods, .name)} }"})
	ev := change
	ev.Attached = map[string][]json.RawMessage{"pods": {json.RawMessage(`{"name":"a"}`), json.RawMessage(`{"name":"b"}`)}}
	if _, err := h.Handle(t.Context(), ev); err != nil || got.body != `{"n":9007199254740993,"old":{},"pods":["a","b"]}` {
		t.Errorf("%v, %s", err, got.body)
	}
}

func TestItemsInTemplates(t *testing.T) {
	url, got := receive(t)
	h := configured(t, values{"url": url, "format": "template", "body": values{
		"text": `${len(items)} from ${items[0].event} ${items[0].name}: ${join(map(items, .payload.pod), ", ")}`,
	}})
	newest, older := withPayload(`{"pod":"b"}`), withPayload(`{"pod":"a"}`)
	older.Event, older.Name = handler.Added, "web-7"
	newest.Items = []handler.Event{older, newest}
	if _, err := h.Handle(t.Context(), newest); err != nil || got.body != `{"text":"2 from added web-7: a, b"}` {
		t.Errorf("%v, %s", err, got.body)
	}
	// The same template serves a rule without a group.
	if _, err := h.Handle(t.Context(), withPayload(`{"pod":"c"}`)); err != nil || got.body != `{"text":"1 from updated web: c"}` {
		t.Errorf("%v, %s", err, got.body)
	}
	h = configured(t, values{"url": url, "format": "template", "body": "${ map(items, ({n: .object.n, old: .old})) }"})
	if _, err := h.Handle(t.Context(), change); err != nil || got.body != `[{"n":9007199254740993,"old":{}}]` {
		t.Errorf("%v, %s", err, got.body)
	}
	newest.Items[0].Payload = json.RawMessage(`{"hunter2`)
	_, err := h.Handle(t.Context(), newest)
	if !errors.Is(err, handler.ErrReject) || !strings.HasSuffix(err.Error(), "items: payload is not valid JSON") {
		t.Errorf("got %v", err)
	}
}

// A URL that is a secret appears nowhere, and may be mended while informd runs.
func TestURLIsASecret(t *testing.T) {
	url, got := receive(t)
	secret := file(t, url+"/services/hunter2\n")
	h := configured(t, values{"url": "${secrets.url}", "secrets": values{"url": secret}})
	if _, err := h.Handle(t.Context(), change); err != nil || got.uri != "/services/hunter2" {
		t.Errorf("%v, %s", err, got.uri)
	}
	for _, bad := range []string{"hunter2", "ftp://hunter2/x", "http://hunter2:x@host/", "http://127.0.0.1:1/hunter2", "http://h unter2/"} {
		write(t, secret, bad)
		_, err := h.Handle(t.Context(), change)
		if err == nil || errors.Is(err, handler.ErrReject) || strings.Contains(err.Error(), "unter2") {
			t.Errorf("%s: got %v, want a retry that does not show it", bad, err)
		}
	}
}

func TestTemplatesThatFail(t *testing.T) {
	url, _ := receive(t)
	secret := file(t, "hunter2")
	for name, test := range map[string]struct {
		config values
		want   string
	}{
		"nil in a text":     {values{"format": "template", "body": values{"text": "Pod ${object.metadata.name}"}}, "rejected: body: text: ${object.metadata.name} is nil within a longer string"},
		"the object's gone": {values{"format": "template", "body": values{"text": "Pod ${object.metadata.name}"}}, "has a payload, so its events have no object"},
		"nothing at all":    {values{"format": "template", "body": "${payload.none}"}, "rejected: body: it is nil"},
		"too large":         {values{"format": "template", "body": []string{"${payload.large}", "${payload.large}"}}, "rejected: body: "},
		"a header's value":  {values{"headers": values{"X": "${payload.lines}"}}, "rejected: headers.X: may hold printable characters"},
		"a header's list":   {values{"headers": values{"X": "${[1]}"}}, "rejected: headers.X: it is a list"},
		"a part of the URL": {values{"url": url + "/${payload.none}"}, "rejected: url: ${payload.none} is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			test.config["secrets"] = values{"key": secret}
			if test.config["url"] == nil {
				test.config["url"] = url
			}
			_, err := configured(t, test.config).Handle(t.Context(), withPayload(`{"lines":"hunter2\nX: y","large":"`+strings.Repeat("hunter2", maxBody/8)+`"}`))
			if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A chat service answers 400 to a CloudEvent. The reason says what to do.
func TestHintToTheFormat(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	for format, want := range map[string]bool{"cloudevents": true, "payload": false} {
		_, err := configured(t, values{"url": server.URL, "format": format}).Handle(t.Context(), withPayload(`{}`))
		if !errors.Is(err, handler.ErrReject) || strings.Contains(err.Error(), "set format to payload or template") != want {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// A URL that is in a file may become one that shows it to everybody. Nothing is sent then, and the
// event waits.
func TestSecretURLLosesItsTLS(t *testing.T) {
	path := file(t, "https://localhost:1/hush")
	h := configured(t, values{"url": "${secrets.url}", "secrets": values{"url": path}})
	write(t, path, "http://192.0.2.1/hush")
	_, err := h.Handle(t.Context(), withPayload(`{}`))
	if err == nil || errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "sends secrets unencrypted") {
		t.Errorf("got %v", err)
	}
}
