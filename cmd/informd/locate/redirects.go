package locate

import (
	"fmt"
	"net/http"

	"github.com/informd/informd/internal/printable"
)

// noRedirects fails requests that the API server redirects. An http.Client would send the credentials
// wherever the redirection leads, also unencrypted. No request of informd needs one.
type noRedirects struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noRedirects) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.next.RoundTrip(r)
	if err != nil || answer.StatusCode/100 != 3 || answer.Header.Get("Location") == "" {
		return answer, err
	}
	_ = answer.Body.Close()
	return nil, fmt.Errorf("the API server answers %d and redirects to %s, where informd does not "+
		"send its credentials: is the server's address right, and no proxy in between?",
		answer.StatusCode, printable.Line(answer.Header.Get("Location"), 200))
}
