package source

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
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
// goroutine of such a request stays until the plugin has ended. Meanwhile, further requests wait
// outside: no more goroutines hang than there were requests when the plugin began to hang.
func Impatient(client *http.Client, config *rest.Config) {
	if config.ExecProvider != nil {
		client.Transport = &impatient{next: client.Transport, command: config.ExecProvider.Command}
	}
}

type impatient struct {
	next    http.RoundTripper
	command string // of the plugin

	mu    sync.Mutex    // guards the fields below; a leaf
	stuck int           // requests that have ended and do not return
	freed chan struct{} // closed when none is stuck any more; nil if none is
}

// hang notes that a request does not return. The caller calls free once it has.
func (i *impatient) hang() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stuck++; i.stuck == 1 {
		i.freed = make(chan struct{})
	}
}

func (i *impatient) free() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stuck--; i.stuck == 0 {
		close(i.freed)
		i.freed = nil
	}
}

// enter waits while requests are stuck. It returns false if ctx ends first.
func (i *impatient) enter(ctx context.Context) bool {
	for {
		i.mu.Lock()
		freed := i.freed
		i.mu.Unlock()
		if freed == nil {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// WrappedRoundTripper lets others find the connections.
func (i *impatient) WrappedRoundTripper() http.RoundTripper { return i.next }

// RoundTrip implements http.RoundTripper.
func (i *impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	if !i.enter(r.Context()) {
		return nil, &PluginError{i.command}
	}
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
	i.hang()
	go func() {
		defer i.free()
		if late := <-results; late.err == nil {
			_ = late.answer.Body.Close()
		}
	}()
	return nil, &PluginError{i.command}
}
