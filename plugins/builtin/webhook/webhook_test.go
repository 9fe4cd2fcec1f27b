package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/informd/informd/plugins/handler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ handler.Handler       = (*Handler)(nil)
	_ handler.Describer     = (*Handler)(nil)
	_ handler.Configurer    = (*Handler)(nil)
	_ handler.HealthChecker = (*Handler)(nil)
	_ handler.Drainer       = (*Handler)(nil)
)

var change = handler.Event{
	ID: "all/u1/updated/7", Rule: "all", Event: handler.Updated, Attempt: 2,
	Resource:  handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
	Namespace: "shop", Name: "web", UID: "u1", ResourceVersion: "7",
	Object: json.RawMessage(`{"html":"<a&b>","n":9007199254740993}`), Old: json.RawMessage(`{}`),
}

const changeBody = `{"specversion":"1.0","id":"all/u1/updated/7","source":"/informd/rules/all","type":"dev.informd.updated",` +
	`"subject":"apps/v1/deployments/shop/web","datacontenttype":"application/json",` +
	`"data":{"id":"all/u1/updated/7","rule":"all","event":"updated","attempt":2,` +
	`"resource":{"group":"apps","version":"v1","resource":"deployments"},` +
	`"namespace":"shop","name":"web","uid":"u1","resourceVersion":"7",` +
	`"object":{"html":"<a&b>","n":9007199254740993},"old":{}}}`

// values are a config.
type values map[string]any

func configured(t *testing.T, config values) *Handler {
	t.Helper()
	h := New()
	if err := configure(h, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func configure(h *Handler, config values) error {
	raw, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return h.Configure(context.Background(), raw)
}

func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, content)
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPostsACloudEvent(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(changeBody, string(body)); diff != "" {
			t.Errorf("body (-want +got)\n%s", diff)
		}
		got := map[string]string{"method": r.Method, "uri": r.RequestURI}
		for _, name := range []string{"Content-Type", "User-Agent", "X-Team", "Authorization", defaultSignature} {
			got[name] = r.Header.Get(name)
		}
		want := map[string]string{
			"method": "POST", "uri": "/in?key=1", "Content-Type": "application/cloudevents+json",
			"User-Agent": "informd", "X-Team": "shop", "Authorization": "", defaultSignature: "",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("request (-want +got)\n%s", diff)
		}
		w.WriteHeader(http.StatusAccepted)
	})
	h := configured(t, values{"url": server.URL + "/in?key=1", "headers": map[string]string{"x-team": "shop"}})
	for range 2 {
		if _, err := h.Handle(t.Context(), change); err != nil {
			t.Error(err)
		}
	}
}

// A request says who leads, and where the event is in a trace, whatever its body is. That of an
// informd without replicas says neither.
func TestEpochAndTrace(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	type request struct {
		epoch, trace []string
		data         handler.Epoch // of the body
		attribute    string
	}
	for why, c := range map[string]struct {
		config values
		epoch  handler.Epoch
		trace  string
		want   request
	}{
		"neither": {values{}, handler.Epoch{}, "", request{}},
		"both": {
			values{}, handler.Epoch{Cluster: "6b1e", Generation: 1, Term: 7}, trace,
			request{[]string{"6b1e/1/7"}, []string{trace}, handler.Epoch{Cluster: "6b1e", Generation: 1, Term: 7}, trace},
		},
		"with a body of its own": {
			values{"format": "template", "body": values{"text": "${name}"}}, handler.Epoch{Cluster: "6b1e", Generation: 1, Term: 7}, trace,
			request{epoch: []string{"6b1e/1/7"}, trace: []string{trace}},
		},
		"what cannot be in a header": {
			values{}, handler.Epoch{Cluster: "a\n", Generation: 1}, "a\nb",
			request{nil, nil, handler.Epoch{Cluster: "a\n", Generation: 1}, "a\nb"},
		},
	} {
		t.Run(why, func(t *testing.T) {
			var got request
			server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				var body struct {
					Data        handler.Event `json:"data"`
					Traceparent string        `json:"traceparent"`
				}
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				got = request{r.Header["Informd-Epoch"], r.Header["Traceparent"], body.Data.Epoch, body.Traceparent}
			})
			c.config["url"] = server.URL
			ev := change
			ev.Epoch, ev.Traceparent = c.epoch, c.trace
			if _, err := configured(t, c.config).Handle(t.Context(), ev); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSubject(t *testing.T) {
	for want, ev := range map[string]handler.Event{
		"apps/v1/deployments/shop/web": change,
		"v1/pods/shop/web-0":           {Resource: handler.Resource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "web-0"},
		"v1/nodes/node-1":              {Resource: handler.Resource{Version: "v1", Resource: "nodes"}, Name: "node-1"},
	} {
		if got := subject(ev); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestStatusIsTheAnswer(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const done, retry, reject = "done", "retry", "reject"
	for _, test := range []struct {
		code       int
		retryAfter string
		want       string
		delay      time.Duration
	}{
		{code: 200, want: done},
		{code: 204, want: done},
		{code: 299, want: done},
		{code: 101, want: retry},
		{code: 302, want: retry},
		{code: 400, want: reject},
		{code: 401, want: reject},
		{code: 404, want: reject, retryAfter: "60"},
		{code: 408, want: reject},
		{code: 425, want: reject},
		{code: 499, want: reject},
		{code: 403, want: reject},
		{code: 403, want: retry, retryAfter: "60", delay: time.Minute}, // GitHub's secondary rate limit
		{code: 429, want: retry, retryAfter: "0.35", delay: time.Second},
		{code: 500, want: retry, retryAfter: "60"}, // Retry-After counts for 429 and 503 only
		{code: 502, want: retry},
		{code: 999, want: retry},
		{code: 429, want: retry},
		{code: 429, want: retry, retryAfter: "60", delay: time.Minute},
		{code: 503, want: retry, retryAfter: "60", delay: time.Minute},
		{code: 503, want: retry, retryAfter: "0"},
		{code: 503, want: retry, retryAfter: "-5"},
		{code: 503, want: retry, retryAfter: "soon"},
		{code: 503, want: retry, retryAfter: "100000", delay: 24 * time.Hour},
		{code: 503, want: retry, retryAfter: strings.Repeat("9", 100), delay: 24 * time.Hour},
		{code: 503, want: retry, retryAfter: "Fri, 02 Jan 2026 03:05:00 GMT", delay: 55 * time.Second},
		{code: 503, want: retry, retryAfter: "Friday, 02-Jan-26 03:05:00 GMT", delay: 55 * time.Second},
		{code: 503, want: retry, retryAfter: "Fri, 02 Jan 2026 03:04:00 GMT"},
		{code: 503, want: retry, retryAfter: "Fri, 02 Jan 9026 03:04:00 GMT", delay: 24 * time.Hour},
	} {
		response := &http.Response{StatusCode: test.code, Header: http.Header{"Retry-After": {test.retryAfter}}}
		err := verdict("host", response, now)
		got := done
		if errors.Is(err, handler.ErrReject) {
			got = reject
		} else if err != nil {
			got = retry
		}
		delay, _ := handler.RetryDelay(err)
		if got != test.want || delay != test.delay {
			t.Errorf("%d, Retry-After %.20q: got %s after %v, want %s after %v", test.code, test.retryAfter, got, delay, test.want, test.delay)
		}
	}
}

// GitHub and Discord say when their rate limits reset.
func TestRateLimits(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	for _, test := range []struct {
		name, remaining, reset string
		want                   time.Duration
	}{
		{"exceeded", "0", at(time.Minute), time.Minute},
		{"a fraction", "0", at(time.Minute) + ".25", time.Minute + time.Second},
		{"not exceeded", "7", at(time.Minute), 0},
		{"over", "0", at(-time.Minute), 0},
		{"far", "0", at(100 * time.Hour), 24 * time.Hour},
		{"no time", "0", "soon", 0},
		{"never", "0", "1e300", 0},
		{"no number", "0", "NaN", 0},
		{"nothing", "", "", 0},
	} {
		header := http.Header{}
		header.Set("X-RateLimit-Remaining", test.remaining)
		header.Set("X-RateLimit-Reset", test.reset)
		err := verdict("host", &http.Response{StatusCode: 403, Header: header}, now)
		if got, _ := handler.RetryDelay(err); got != test.want || errors.Is(err, handler.ErrReject) != (test.want == 0) {
			t.Errorf("%s: %v after %v, want %v", test.name, err, got, test.want)
		}
	}
}

func TestAnswerOfAServer(t *testing.T) {
	code, followed := 0, false
	mux := http.NewServeMux()
	mux.HandleFunc("/in", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		fmt.Fprint(w, "secret of the body")
	})
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { followed = true })
	server := serve(t, mux.ServeHTTP)
	host := strings.TrimPrefix(server.URL, "http://")
	h := configured(t, values{"url": server.URL + "/in?key=secret"})
	for _, test := range []struct {
		code    int
		want    string
		healthy bool
	}{
		{500, host + " answered 500 Internal Server Error", false},
		{404, "rejected: " + host + " answered 404 Not Found: *** of the body", true},
		{503, host + " answered 503 Service Unavailable", false},
		{307, host + " answered 307 Temporary Redirect; redirects are not followed, give the URL they lead to", false},
	} {
		code = test.code
		_, err := h.Handle(t.Context(), change)
		if err == nil || err.Error() != test.want {
			t.Errorf("%d: got %v, want %s", code, err, test.want)
		}
		if delay, _ := handler.RetryDelay(err); (code == 503) != (delay == 7*time.Second) {
			t.Errorf("%d: delay %v", code, delay)
		}
		if healthy := h.Health(t.Context()) == nil; healthy != test.healthy {
			t.Errorf("%d: healthy %v, want %v", code, healthy, test.healthy)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

func TestTokenIsReadForEveryRequest(t *testing.T) {
	var got []string
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Get("Authorization")) })
	path := file(t, "first\n")
	h := configured(t, values{"url": server.URL, "tokenFile": path})
	for _, token := range []string{"first", "second"} {
		write(t, path, token+"\n")
		if _, err := h.Handle(t.Context(), change); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"Bearer first", "Bearer second"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, content := range []string{"", "  \n", "two words", "line\nline", "nul\x00", "ü"} {
		write(t, path, content)
		_, err := h.Handle(t.Context(), change)
		if err == nil || errors.Is(err, handler.ErrReject) || (content != "" && strings.Contains(err.Error(), content)) {
			t.Errorf("%q: got %v, want a retry that does not show it", content, err)
		}
	}
}

func TestSignature(t *testing.T) {
	for header, want := range map[string]string{"": defaultSignature, "x-hub-signature-256": "X-Hub-Signature-256"} {
		server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mac := hmac.New(sha256.New, []byte("k e y"))
			mac.Write(body)
			if got := r.Header.Get(want); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
				t.Errorf("%s: %s", want, got)
			}
		})
		sign := values{"secretFile": file(t, "k e y\r\n")}
		if header != "" {
			sign["header"] = header
		}
		h := configured(t, values{"url": server.URL, "hmac": sign})
		if _, err := h.Handle(t.Context(), change); err != nil {
			t.Error(err)
		}
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("protocol %s", r.Proto)
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	authority := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))

	h := configured(t, values{"url": server.URL, "caFile": authority})
	if _, err := h.Handle(t.Context(), change); err != nil {
		t.Error(err)
	}
	stranger := configured(t, values{"url": server.URL})
	if _, err := stranger.Handle(t.Context(), change); err == nil || errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v, want a retry for the certificate", err)
	}
}

func TestNoAnswer(t *testing.T) {
	const path = "/secret-path?key=secret"
	token := file(t, "secret-token")
	wantRetry := func(t *testing.T, err error, want string) {
		t.Helper()
		if err == nil || errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a retry with %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}

	t.Run("no server listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		h := configured(t, values{"url": "http://" + l.Addr().String() + path, "tokenFile": token})
		_, err = h.Handle(t.Context(), change)
		wantRetry(t, err, "post to "+l.Addr().String()+": dial tcp")
	})

	raw := func(t *testing.T, response string) *Handler {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 64<<10))
				_, _ = io.WriteString(c, response)
				c.Close()
			}
		}()
		return configured(t, values{
			"url": "http://" + l.Addr().String() + path, "tokenFile": token,
			"headers": map[string]string{"X-Key": `secret "value"`},
		})
	}
	const closed, notHTTP = "the connection was closed before an answer came", "what came back is not a valid HTTP response"
	for name, test := range map[string]struct{ response, want string }{
		"closed":             {"", closed},
		"closed within":      {"HTTP/1.1 200 OK\r\nX: x", closed},
		"not HTTP":           {"SSH-2.0-OpenSSH\r\n", notHTTP},
		"echo of the token":  {"Bearer secret-token\r\n\r\n", notHTTP},
		"echo of a header":   {"X-Key: secret \"value\"\r\n\r\n", notHTTP},
		"echo of the URL":    {"POST " + path + " key=secret\r\n\r\n", notHTTP},
		"echo in a header":   {"HTTP/1.1 200 OK\r\nsecret-token\r\n\r\n", notHTTP},
		"endless header":     {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), ""},
		"control characters": {"\x1b[31m\r\n", notHTTP},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := raw(t, test.response).Handle(t.Context(), change)
			wantRetry(t, err, "post to ")
			wantRetry(t, err, test.want)
		})
	}

	t.Run("HTTP instead of HTTPS", func(t *testing.T) {
		server := serve(t, func(http.ResponseWriter, *http.Request) {})
		h := configured(t, values{"url": strings.Replace(server.URL, "http:", "https:", 1) + path})
		_, err := h.Handle(t.Context(), change)
		wantRetry(t, err, "server gave HTTP response to HTTPS client")
	})

	t.Run("too late", func(t *testing.T) {
		release := make(chan struct{})
		server := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
		defer close(release)
		h := configured(t, values{"url": server.URL + path, "tokenFile": token, "timeout": "20ms"})
		_, err := h.Handle(t.Context(), change)
		wantRetry(t, err, "no answer in time")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if h.Health(t.Context()) == nil {
			t.Error("healthy without an answer")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := h.Handle(ctx, change); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestEndlessBodyDoesNotHoldTheAnswer(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		for chunk := make([]byte, 32<<10); r.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if _, err := configured(t, values{"url": server.URL}).Handle(t.Context(), change); err != nil {
		t.Error(err)
	}
	silent := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if _, err := configured(t, values{"url": silent.URL}).Handle(t.Context(), change); err != nil {
		t.Error(err)
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	addresses := make(map[string]bool)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		addresses[r.RemoteAddr] = true
		fmt.Fprint(w, strings.Repeat("x", 10_000))
	})
	h := configured(t, values{"url": server.URL})
	for range 5 {
		if _, err := h.Handle(t.Context(), change); err != nil {
			t.Error(err)
		}
	}
	if len(addresses) != 1 {
		t.Errorf("%d connections for 5 events", len(addresses))
	}
}

func TestEventThatCannotBeEncodedIsRejected(t *testing.T) {
	h := configured(t, values{"url": "http://127.0.0.1:1"})
	broken, nameless := change, change
	broken.Object = json.RawMessage("{\n")
	nameless.ID = ""
	for _, ev := range []handler.Event{broken, nameless} {
		if _, err := h.Handle(t.Context(), ev); !errors.Is(err, handler.ErrReject) {
			t.Errorf("got %v, want a reject", err)
		}
	}
}

func TestUnconfigured(t *testing.T) {
	h := New()
	if _, err := h.Handle(t.Context(), change); err == nil {
		t.Error("an event was taken before Configure")
	}
	if err := errors.Join(h.Health(t.Context()), h.Drain(t.Context())); err != nil {
		t.Error(err)
	}
}
