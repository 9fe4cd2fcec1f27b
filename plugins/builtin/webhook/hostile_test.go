package webhook

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/plugins/handler"
)

// A URL that begins with a secret has the secret's host, whatever an event adds to it.
func TestNoEventExtendsTheHostOfASecret(t *testing.T) {
	for name, test := range map[string]struct{ secret, url string }{
		"a domain":        {"http://hooks.example.com", "${secrets.url}${payload.text}"},
		"constant domain": {"http://hooks.example.com", "${secrets.url}.${payload.text}/x"},
		"no host":         {"http://", "${secrets.url}${payload.text}"},
	} {
		t.Run(name, func(t *testing.T) {
			err := configure(New(), values{"url": test.url, "secrets": values{"url": file(t, test.secret)}})
			if err == nil || !strings.Contains(err.Error(), "so that no object chooses the host") {
				t.Errorf("got %v", err)
			}
		})
	}
	// The file may change while informd runs.
	secret := file(t, "https://hooks.example.com/x?key=1")
	h := configured(t, values{"url": "${secrets.url}&q=${payload.text}", "secrets": values{"url": secret}})
	write(t, secret, "https://hooks.example.com")
	_, err := h.Handle(t.Context(), withPayload(`{"text":"x"}`))
	if err == nil || errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "so that no object chooses the host") {
		t.Errorf("after a change: got %v, want a retry", err)
	}
}

// A dot segment would leave the segment of the path that a value stands in.
func TestNoEventLeavesItsSegment(t *testing.T) {
	url, got := receive(t)
	h := configured(t, values{"url": url + "/repos/${payload.a}${payload.b}/dispatches", "format": "payload"})
	for _, payload := range []string{`{"a":"..","b":""}`, `{"a":".","b":"."}`, `{"a":"","b":"."}`} {
		_, err := h.Handle(t.Context(), withPayload(payload))
		if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), `url: has a segment "." or ".."`) {
			t.Errorf("%s: got %v, and a request to %s", payload, err, got.uri)
		}
	}
	if _, err := h.Handle(t.Context(), withPayload(`{"a":"a..","b":".b"}`)); err != nil || got.uri != "/repos/a...b/dispatches" {
		t.Errorf("got %v, %s", err, got.uri)
	}
}

// Nil leaves a member or a header out. An object that is not there at all is a mistake.
func TestWholeValuesOfAMissingObject(t *testing.T) {
	url, got := receive(t)
	for name, config := range map[string]values{
		"body.fields[0].a": {"format": "template", "body": values{"fields": []any{values{"a": "${object.metadata.name}"}}}},
		"headers.X-Name":   {"headers": values{"X-Name": "${object.metadata.name}"}},
		"body.old":         {"format": "template", "body": values{"old": "${old.metadata.name}"}},
	} {
		config["url"] = url
		_, err := configured(t, config).Handle(t.Context(), withPayload(`{}`))
		if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), name+": ") ||
			!strings.Contains(err.Error(), "rule all has a payload, so its events have no object") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	h := configured(t, values{"url": url, "format": "template", "body": values{"a": "${object.n ?? payload.n}", "b": "${payload.none}"}})
	if _, err := h.Handle(t.Context(), withPayload(`{"n":1}`)); err != nil || got.body != `{"a":1}` {
		t.Errorf("got %v, %s", err, got.body)
	}
}

// The page says which encodings of a secret are found. A service that echoes it in another one is not
// noticed: these are such.
func TestEncodingsThatAreNotFound(t *testing.T) {
	for name, body := range map[string]string{
		"hexadecimal":    "no 68756e746572322f22612b62223d",
		"JSON's escapes": `no \u0068\u0075\u006e\u0074\u0065\u0072\u0032`,
		"spaced out":     "no h u n t e r 2",
		"backwards":      "no 2retnuh",
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(body))
			})
			h := configured(t, values{
				"url": server.URL + "/${secrets.key}", "secrets": values{"key": file(t, `hunter2/"a+b"=`)},
			})
			_, err := h.Handle(t.Context(), change)
			if err == nil || !strings.HasSuffix(err.Error(), body) {
				t.Errorf("got %v: builtins.md says that this is not found", err)
			}
		})
	}
}

// What a service says about a request that it refuses is how an author finds the mistake.
func TestRejectsQuoteTheResponse(t *testing.T) {
	const key = `hunter2/"a+b"=`
	config := func(url string) values {
		return values{
			"url": url + "/services/${secrets.key}?q=${secrets.key}", "secrets": values{"key": file(t, key)},
			"tokenFile": file(t, "token-hunter3"), "headers": values{"X-Key": "constant hunter44", "X-Zone": "zone"},
		}
	}
	for name, test := range map[string]struct{ kind, body, want string }{
		"text":                 {"text/plain", "invalid_payload\n", "404 Not Found: invalid_payload"},
		"JSON":                 {"application/json", `{"errors": ["length of 'dedup_key'"]}`, `: {"errors": ["length of 'dedup_key'"]}`},
		"lines":                {"text/plain", "a\r\n\tb\x00\x1b[31m c", ": a b [31m c"},
		"long":                 {"text/plain", strings.Repeat("é", 5000), strings.Repeat("é", maxQuote/2) + "…"},
		"nothing":              {"text/plain", " ", "404 Not Found"},
		"a page":               {"text/html", "<html><body>hello</body></html>", "404 Not Found"},
		"bytes":                {"", "\xff\xfe\x00hello", "404 Not Found"},
		"a header":             {"text/plain", "X-Key: constant hunter44!", ": X-Key: ***!"},
		"a header's word":      {"text/plain", "no hunter44!", ": no ***!"},
		"a token":              {"text/plain", "no token-hunter3!", ": no ***!"},
		"a secret":             {"text/plain", "no " + key + "!", ": no ***!"},
		"a secret in JSON":     {"application/json", `{"e":"hunter2\/\"a+b\"="}`, "which is not shown, because it quotes a secret"},
		"a secret in a path":   {"text/plain", "Cannot POST /services/hunter2%2F%22a%2Bb%22%3D", "which is not shown, because it quotes a secret"},
		"a secret in base64":   {"text/plain", base64.StdEncoding.EncodeToString([]byte(`hunter2/"a+b"=`)), "which is not shown, because it quotes a secret"},
		"as in Basic":          {"text/plain", "sent Basic " + base64.StdEncoding.EncodeToString([]byte(`user:hunter2/"a+b"=`)), "which is not shown, because it quotes a secret"},
		"within a URL":         {"text/plain", base64.RawURLEncoding.EncodeToString([]byte(`ab` + `hunter2/"a+b"=` + `cd`)), "which is not shown, because it quotes a secret"},
		"in capitals":          {"text/plain", "NO HUNTER2%2F", "which is not shown, because it quotes a secret"},
		"in HTML":              {"text/plain", "no hunter2/&quot;a+b&quot;=", "which is not shown, because it quotes a secret"},
		"a secret after a lot": {"text/plain", strings.Repeat("x", 10000) + "hunter2", "which is not shown, because it quotes a secret"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(test.body))
			})
			h := configured(t, config(server.URL))
			_, err := h.Handle(t.Context(), change)
			if !errors.Is(err, handler.ErrReject) || !strings.HasSuffix(err.Error(), test.want) || len(err.Error()) > 1024 {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter") || h.Health(t.Context()) != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}
