package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// newClient returns a client that trusts roots, or the system's if they are nil. Its timeouts suit
// a server that is up; the request's context bounds the whole.
func newClient(roots *x509.CertPool) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  proxy,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // the body is not read
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    64, // further connections are closed after their event
			IdleConnTimeout:        90 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

var errProxy = errors.New("the proxy that the environment names is not a valid URL")

// proxy is http.ProxyFromEnvironment with an error of its own: the original quotes the variable,
// which may contain a password.
func proxy(request *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(request)
	if err != nil {
		return nil, errProxy
	}
	return u, nil
}

// request returns the request for ev. It fails with a reject if no attempt would go better, and
// with a retry if a file cannot be read, which the next attempt may be able to.
func (c *config) request(ctx context.Context, ev *handler.Event) (*http.Request, error) {
	var env *expr.Env
	if c.isTemplated() {
		secrets, err := c.readSecrets()
		if err != nil {
			return nil, err
		}
		if env, err = environment(ev, secrets, time.Now()); err != nil {
			return nil, handler.Reject(err)
		}
	}
	body, contentType, err := c.encode(ev, env)
	if err != nil {
		return nil, handler.Reject(about(ev, err))
	}
	address, err := c.address(ev, env)
	if err == nil {
		err = c.checkExposed(address) // a file may hold another URL by now
	}
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(),
		bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("url: no request can be made for it")
	}
	request.Header.Set("User-Agent", "informd")
	for name, value := range c.headers {
		at := "headers." + name
		s, ok, err := value.render(env)
		if err == nil && !ok && lacksObject(ev, value.program) {
			return nil, handler.Reject(noObject(ev, at))
		}
		if err == nil {
			err = checkHeader(at, s)
		} else {
			err = fmt.Errorf("%s: %w", at, err)
		}
		switch {
		case err != nil:
			return nil, handler.Reject(about(ev, err))
		case ok:
			request.Header[name] = []string{s}
		}
	}
	request.Header.Set("Content-Type", contentType)
	for name, value := range map[string]string{
		epochHeader: ev.Epoch.String(), traceHeader: ev.Traceparent,
	} {
		if value != "" && checkHeader(name, value) == nil {
			request.Header.Set(name, value)
		}
	}
	return request, c.authorize(request, body)
}

// isTemplated reports whether a request depends on more than the body's format.
func (c *config) isTemplated() bool {
	if c.body != nil || c.url.program != nil {
		return true
	}
	for _, value := range c.headers {
		if value.program != nil {
			return true
		}
	}
	return false
}

// authorize adds the headers that show who sends the request.
func (c *config) authorize(request *http.Request, body []byte) error {
	if c.tokenFile != "" {
		token, err := readToken(c.tokenFile)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if c.secretFile != "" {
		secret, err := readSecret(c.secretFile)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		request.Header.Set(c.signature, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	return nil
}

// readSecrets reads the secrets for templates, so that a rotated one takes effect at once.
func (c *config) readSecrets() (map[string]any, error) {
	secrets := make(map[string]any, len(c.secrets))
	for name, path := range c.secrets {
		line, err := readLine("secrets."+name, path)
		if err != nil {
			return nil, err
		}
		secrets[name] = line
	}
	return secrets, nil
}

// address returns the URL for ev.
func (c *config) address(ev *handler.Event, env *expr.Env) (*url.URL, error) {
	address, ok, err := c.url.render(env)
	if err == nil && !ok {
		err = errors.New("it is nil")
	}
	if err != nil {
		return nil, handler.Reject(about(ev, fmt.Errorf("url: %w", err)))
	}
	u, err := parseURL(address)
	if err != nil && len(c.secrets) == 0 {
		return nil, handler.Reject(err)
	}
	if err != nil || c.url.program == nil {
		return u, err // with a secret in it, the next attempt may read a better one
	}
	if c.base != "" {
		secret, _ := env.Given["secrets"].(map[string]any)[c.base].(string)
		if err := c.checkHost(u, secret); err != nil {
			return nil, err
		}
	}
	// A server may take a dot segment as the folder above.
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if segment == "." || segment == ".." {
			return nil, handler.Reject(errors.New(`url: has a segment "." or "..", ` +
				"which would lead to another path"))
		}
	}
	return u, nil
}

// encode returns the body of the request for ev, and its type.
func (c *config) encode(
	ev *handler.Event, env *expr.Env,
) (body []byte, contentType string, err error) {
	switch c.format {
	case formatPayload:
		if len(ev.Payload) == 0 {
			return nil, "", fmt.Errorf("rule %s has no payload, which format: payload sends: "+
				"give the rule one, or choose another format", ev.Rule)
		}
		return ev.Payload, "application/json", nil
	case formatTemplate:
		if err := c.checkObject(ev, env, "body", c.body); err != nil {
			return nil, "", err
		}
		body, err := c.body.Render(env, maxBody)
		if err != nil {
			return nil, "", fmt.Errorf("body: %w", err)
		}
		if body == nil {
			return nil, "", errors.New("body: it is nil")
		}
		return body, "application/json", nil
	}
	body, err = encode(*ev)
	return body, "application/cloudevents+json", err
}

// about adds to an error of a template what the event lacks.
func about(ev *handler.Event, err error) error {
	if len(ev.Payload) == 0 || len(ev.Object) > 0 || !strings.Contains(err.Error(), "${object.") {
		return err
	}
	return fmt.Errorf("%w (rule %s has a payload, so its events have no object)", err, ev.Rule)
}

// checkObject returns an error if a value of a template would be left out because the event has no
// object. Nil leaves a value out, but then the author has not seen that a payload replaces the
// object. at is the template's place.
func (c *config) checkObject(
	ev *handler.Event, env *expr.Env, at string, t *rule.Template,
) error {
	if len(ev.Payload) == 0 || len(ev.Object) > 0 {
		return nil
	}
	if lacksObject(ev, t.Program) {
		if v, err := t.Program.Value(env); err == nil && v == nil {
			return noObject(ev, at)
		}
	}
	for _, m := range t.Members {
		if err := c.checkObject(ev, env, at+"."+m.Name, m.Value); err != nil {
			return err
		}
	}
	for i, item := range t.Items {
		if err := c.checkObject(ev, env, fmt.Sprintf("%s[%d]", at, i), item); err != nil {
			return err
		}
	}
	return nil
}

// lacksObject reports whether a program, which may be nil, reads the object of an event that has a
// payload instead.
func lacksObject(ev *handler.Event, program *expr.Program) bool {
	return program != nil && len(ev.Payload) > 0 && len(ev.Object) == 0 &&
		!program.Paths().IsEmpty()
}

func noObject(ev *handler.Event, at string) error {
	return fmt.Errorf("%s: it is nil: rule %s has a payload, so its events have no object; "+
		"add what is missing to the payload", at, ev.Rule)
}

// failure says why there was no response from a host.
func failure(ctx context.Context, host string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("post to %s: no answer in time: %w", host, cause)
	}
	return fmt.Errorf("post to %s: %s", host, reason(err))
}

// reason returns the text of a failure only if it can contain nothing but addresses and names of
// certificates. http.Client's errors begin with the URL. An error about a response that is not HTTP
// quotes the response, into which a server can put what it was sent, such as the token.
func reason(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case ok && timeout.Timeout():
		return "timed out"
	case errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, errProxy) ||
		strings.HasPrefix(err.Error(), "tls: "):
		return err.Error()
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before an answer came"
	}
	return "what came back is not a valid HTTP response"
}
