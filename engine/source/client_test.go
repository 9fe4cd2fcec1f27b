package source

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// An answer that is no watch is trouble of one informer, not of the API server.
func TestAnswersThatAreNoWatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		kind   string
		reason string // "" means that it is a watch, or an error for client-go to read
	}{
		{http.StatusOK, "application/json", ""},
		{http.StatusOK, "application/json; charset=utf-8", ""},
		{http.StatusOK, "none", ""},
		{http.StatusServiceUnavailable, "text/html", ""},
		{http.StatusUnauthorized, "text/html", ""},
		{http.StatusOK, "text/html", `the answer is no watch (is a proxy in between?): status 200, type "text/html"`},
		{http.StatusOK, "text/html; charset", `the answer is no watch (is a proxy in between?): status 200, type "text/html; charset"`},
		{http.StatusOK, "text/html/x", `the answer is no watch (is a proxy in between?): status 200, type "text/html/x"`},
		{http.StatusNonAuthoritativeInfo, "application/json", `the answer is no watch (is a proxy in between?): status 203, type "application/json"`},
		{http.StatusNoContent, "none", `the answer is no watch (is a proxy in between?): status 204, type ""`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{c.kind}
			if c.kind == "none" {
				w.Header()["Content-Type"] = nil
			}
			w.WriteHeader(c.status)
		}))
		client := &http.Client{Transport: watchesOnly{server.Client().Transport}}
		answer, err := client.Get(server.URL)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		server.Close()
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("%d, %s: %v", c.status, c.kind, err)
		case c.reason != "" && !errors.Is(err, errNoWatch):
			t.Errorf("%d, %s passes: %v", c.status, c.kind, err)
		case c.reason != "" && (reasonOf(err) != c.reason || isUnreachable(err)):
			t.Errorf("%d, %s: the reason is %q, and the server counts as unreachable: %v",
				c.status, c.kind, reasonOf(err), isUnreachable(err))
		}
	}
}
