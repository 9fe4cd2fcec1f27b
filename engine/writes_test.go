package engine

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/plugins/handler"
)

// heldWrites answers a daemon's requests that write, each when the test says so. Others go on to
// the server.
type heldWrites struct {
	// begun has a channel for each request. It takes the resourceVersion that the request makes, or
	// "" if the request fails.
	begun chan chan<- string
}

func holdWrites() *heldWrites { return &heldWrites{make(chan chan<- string)} }

// cluster returns how to reach the life's server, except that writes are held.
func (w *heldWrites) cluster(l *life) Cluster {
	l.t.Helper()
	discovery, err := discovery.NewDiscoveryClientForConfig(l.server.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	return Cluster{l.server.Config(), &http.Client{Transport: w}, discovery}
}

func (w *heldWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return http.DefaultTransport.RoundTrip(r)
	}
	answer := make(chan string)
	w.begun <- answer
	version := <-answer
	if version == "" {
		return nil, io.ErrUnexpectedEOF
	}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a","uid":"u","resourceVersion":%q}}`, version)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// begin makes a rule write the ConfigMap shop/a, which is at a version. It returns when the request
// is under way. end answers the request: see heldWrites.
func (w *heldWrites) begin(t *testing.T, e *Engine, rule, from string) (end func(to string)) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ev := handler.Event{
			// Synced: the action does not wait until it is known who made the change.
			ID: rule + "/u/synced/" + from, Rule: rule, Event: handler.Synced,
			Resource: handler.Resource(configMaps), Namespace: "shop", Name: "a", UID: "u", ResourceVersion: from,
		}
		_, _ = e.parts.Acting.ForRules().Perform(t.Context(), dispatch.Performance{
			Event: &ev, Stop: func() bool { return false },
			Acts: &delivery.Acts{Pieces: []delivery.Piece{{Label: "actions[0]", Actions: []handler.Action{{
				Verb: handler.ActionPatch, Resource: ev.Resource, Namespace: "shop", Name: "a", Patch: []byte(`{}`),
			}}}}},
		})
	}()
	answer := <-w.begun
	return func(to string) {
		answer <- to
		<-ended
	}
}
