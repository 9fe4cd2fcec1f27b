// Package bounded bounds the answers of API servers that client-go reads into memory as a whole. A
// peer is not trusted for size, and decoding takes many times the size of the text.
//
// It knows which answers are large by nature: OpenAPI documents. It is not for lists and watches,
// which their readers take apart as they come.
package bounded

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// The bounds of an answer in bytes, after decompression.
const (
	MaxDiscovery = 8 << 20  // what the cluster serves
	MaxOpenAPI   = 64 << 20 // the schemas of a group and version
	MaxObject    = 32 << 20 // anything else: more than the API server stores of one object
)

// Client returns a client that sends what c sends. Reading an answer beyond its bound is an error.
func Client(c *http.Client) *http.Client {
	out := *c
	if out.Transport == nil {
		out.Transport = http.DefaultTransport
	}
	out.Transport = transport{out.Transport}
	return &out
}

// Transport wraps the transport of such a client. It is for client-go's rest.Config.Wrap.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	most := maxOf(r.URL.Path)
	answer.Body = &body{ReadCloser: answer.Body, most: most, left: most + 1}
	return answer, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// maxOf returns the bound of the answer at a path, below whatever path the API server has.
func maxOf(path string) int64 {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if slices.Contains(parts, "openapi") && !slices.Contains(parts, "namespaces") {
		return MaxOpenAPI
	}
	if at := slices.Index(parts, "apis"); at >= 0 && len(parts)-at <= 3 {
		return MaxDiscovery
	}
	if at := slices.Index(parts, "api"); at >= 0 && len(parts)-at <= 2 {
		return MaxDiscovery
	}
	return MaxObject
}

type body struct {
	io.ReadCloser
	most, left int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		return 0, fmt.Errorf("the API server's answer has more than %d MiB", b.most>>20)
	}
	return n, err
}
