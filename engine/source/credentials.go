package source

import (
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// PluginError says that a credential plugin of the kubeconfig does not answer.
type PluginError struct{ Command string }

func (e *PluginError) Error() string {
	return fmt.Sprintf("the credential plugin %s does not answer: end its process, and informd runs it "+
		"again", filepath.Base(e.Command))
}

// pluginGrace is how long a request that has ended may take to return. Connections do so at once.
const pluginGrace = 500 * time.Millisecond

// Impatient makes requests of a client end with their context, although client-go waits for a
// credential plugin without regard for that. It must come before the client's first request. The
// goroutine of such a request stays until the plugin has ended.
func Impatient(client *http.Client, config *rest.Config) {
	if config.ExecProvider != nil {
		client.Transport = impatient{client.Transport, config.ExecProvider.Command}
	}
}

type impatient struct {
	next    http.RoundTripper
	command string // of the plugin
}

// WrappedRoundTripper lets others find the connections.
func (i impatient) WrappedRoundTripper() http.RoundTripper { return i.next }

// RoundTrip implements http.RoundTripper.
func (i impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	type result struct {
		answer *http.Response
		err    error
	}
	results := make(chan result, 1)
	go func() {
		answer, err := i.next.RoundTrip(r)
		results <- result{answer, err}
	}()
	select {
	case got := <-results:
		return got.answer, got.err
	case <-r.Context().Done():
	}
	grace := time.NewTimer(pluginGrace)
	defer grace.Stop()
	select {
	case got := <-results:
		return got.answer, got.err
	case <-grace.C:
	}
	go func() {
		if late := <-results; late.err == nil {
			_ = late.answer.Body.Close()
		}
	}()
	return nil, &PluginError{i.command}
}
