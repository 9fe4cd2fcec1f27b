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

// request returns the request that posts body. It fails if a file cannot be read, which the next
// attempt may be able to.
func (c *config) request(ctx context.Context, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(),
		bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("url: no request can be made for it")
	}
	request.Header.Set("User-Agent", "informd")
	for name, values := range c.headers {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/cloudevents+json")
	if c.tokenFile != "" {
		token, err := readToken(c.tokenFile)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if c.secretFile != "" {
		secret, err := readSecret(c.secretFile)
		if err != nil {
			return nil, err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		request.Header.Set(c.signature, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	return request, nil
}

// failure says why there was no response.
func (c *config) failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("post to %s: no answer in time: %w", c.url.Host, cause)
	}
	return fmt.Errorf("post to %s: %s", c.url.Host, reason(err))
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
