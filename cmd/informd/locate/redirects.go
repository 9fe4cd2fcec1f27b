package locate

import (
	"fmt"
	"net/http"

	"github.com/informd/informd/internal/printable"
)

// noRedirects fails requests that the API server redirects to anywhere but itself. An http.Client
// would send the credentials wherever the redirection leads, also unencrypted. If an OpenAPI document
// has changed, the API server redirects requests for the old version of it to the new one, on the same
// server: readers follow that.
type noRedirects struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noRedirects) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.next.RoundTrip(r)
	if err != nil || answer.StatusCode/100 != 3 || answer.Header.Get("Location") == "" || staysHere(r, answer) {
		return answer, err
	}
	_ = answer.Body.Close()
	return nil, fmt.Errorf("the API server answers %d and redirects to %s, where informd does not "+
		"send its credentials: is the server's address right, and no proxy in between?",
		answer.StatusCode, printable.Line(answer.Header.Get("Location"), 200))
}

// staysHere reports whether an answer sends a reader to another path of the same server.
func staysHere(r *http.Request, answer *http.Response) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	to, err := r.URL.Parse(answer.Header.Get("Location"))
	return err == nil && to.Scheme == r.URL.Scheme && to.Host == r.URL.Host && to.User == nil
}
