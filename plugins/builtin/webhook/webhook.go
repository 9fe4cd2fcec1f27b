// Package webhook is the builtin that posts each event over HTTP: as a CloudEvent 1.0 in structured
// mode, or the event's payload as it is, or what a template gives. The URL and the headers are
// templates, too. Templates are those of actions, compiled by engine/expr; they see the event and
// the config's secrets.
//
// The response's status is the answer: 2xx is done. 429 and 503 are a retry, after the time that
// Retry-After asks for, and so is a 403 that says how long to wait. Any other 4xx rejects.
// Everything else is a retry: redirects, which are not followed, and failures to get a response.
// The body is signed if the config asks for it. The token and the secrets are read from their files
// for every request, so a rotated one takes effect at once.
//
// Reports name the host and nothing else of the URL, and never a token, a secret or a header's
// value. A reject quotes the beginning of the response, without those.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Handler is the webhook builtin. New returns one.
type Handler struct {
	config  *config // set by Configure
	client  *http.Client
	failure atomic.Pointer[error] // why the last request got no final answer; nil if it did
}

// New returns a webhook builtin. It takes events once it is configured.
func New() *Handler { return new(Handler) }

// Describe implements handler.Describer.
func (*Handler) Describe() handler.Description {
	return handler.Description{Name: "webhook", ConfigSchema: json.RawMessage(schema)}
}

// Configure implements handler.Configurer. The files that the config names must be
// readable. It sends nothing.
func (h *Handler) Configure(_ context.Context, raw json.RawMessage) error {
	c, err := parse(raw)
	if err != nil {
		return err
	}
	h.config, h.client = c, newClient(c.roots)
	return nil
}

// Handle posts ev.
func (h *Handler) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	if h.config == nil {
		return handler.Answer{}, errors.New("webhook is not configured")
	}
	err := h.post(ctx, &ev)
	if err == nil || errors.Is(err, handler.ErrReject) {
		h.failure.Store(nil) // the server works
	} else {
		h.failure.Store(&err)
	}
	return handler.Answer{}, err
}

// post sends the request for ev and turns the response into an answer.
func (h *Handler) post(ctx context.Context, ev *handler.Event) error {
	if h.config.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.config.timeout)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	request, err := h.config.request(ctx, ev)
	if err != nil {
		return err
	}
	response, err := h.client.Do(request)
	if err != nil {
		return failure(ctx, request.URL.Host, err)
	}
	body := read(response.Body, cancel)
	err = verdict(request.URL.Host, response, time.Now())
	if h.config.format == formatCloudEvents && refusesBody(response.StatusCode) {
		err = fmt.Errorf("%w to a CloudEvent; for a service that wants a body of its own, "+
			"set format to payload or template", err)
	}
	if errors.Is(err, handler.ErrReject) {
		err = h.config.quote(err, response.Header, body, request)
	}
	return err
}

// refusesBody reports whether a status says that the server does not understand the body.
func refusesBody(code int) bool {
	switch code {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// verdict returns the answer that a response means.
func verdict(host string, response *http.Response, now time.Time) error {
	code := response.StatusCode
	if code >= 200 && code <= 299 {
		return nil
	}
	err := fmt.Errorf("%s answered %d %s", host, code, http.StatusText(code))
	after := delay(response.Header, now)
	switch {
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable,
		code == http.StatusForbidden && after > 0: // GitHub's rate limits
		return handler.RetryAfter(after, err)
	case code >= 400 && code <= 499:
		return handler.Reject(err)
	case code >= 300 && code <= 399:
		return fmt.Errorf("%w; redirects are not followed, give the URL they lead to", err)
	}
	return err
}

// delay returns how long a server asks to wait, by Retry-After, or by the headers of GitHub and
// Discord that say when their rate limit resets. 0 means that it does not.
func delay(header http.Header, now time.Time) time.Duration {
	if after := retryAfter(header.Get("Retry-After"), now); after > 0 {
		return after
	}
	if header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	seconds, err := strconv.ParseFloat(header.Get("X-RateLimit-Reset"), 64) // since 1970
	if err != nil || !(math.Abs(seconds) < math.MaxInt32*1e3) {
		return 0
	}
	return min(max(time.Unix(int64(math.Ceil(seconds)), 0).Sub(now), 0), longest)
}

// longest is the longest delay that informd honours.
const longest = 24 * time.Hour

// retryAfter reads a Retry-After header: seconds or a date (RFC 9110, section 10.2.3). It rounds
// fractions of a second up. 0 means none.
func retryAfter(value string, now time.Time) time.Duration {
	if f, err := strconv.ParseFloat(value, 64); err == nil && f > 0 && f < longest.Seconds() {
		return time.Duration(math.Ceil(f)) * time.Second
	}
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // out of range, n is the greatest number
		return time.Duration(min(seconds, uint64(longest/time.Second))) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), longest)
}

const (
	maxRead  = 64 << 10 // bytes of a response's body that are read
	readTime = time.Second
)

// read reads a body within the bounds at which keeping the connection is worth it. The answer is
// known by now, so no failure matters: read returns what came.
func read(body io.ReadCloser, cancel context.CancelFunc) []byte {
	defer body.Close()
	defer time.AfterFunc(readTime, cancel).Stop()
	text, _ := io.ReadAll(io.LimitReader(body, maxRead))
	return text
}

// Health implements handler.HealthChecker: it returns why the last event could not
// be posted, until one can.
func (h *Handler) Health(context.Context) error {
	if failure := h.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// Drain implements handler.Drainer: it closes the connections kept for the next event.
func (h *Handler) Drain(context.Context) error {
	if h.client != nil {
		h.client.CloseIdleConnections()
	}
	return nil
}
