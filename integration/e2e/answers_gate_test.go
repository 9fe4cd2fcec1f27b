package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/integration/harness"
)

// gate stands between informd and the API server and forwards everything as a kubeconfig's user. It
// can hold responses back: the API server then does what informd asks for, and informd does not
// know.
type gate struct {
	kubeconfig string

	mu   sync.Mutex
	shut func(*http.Request) bool
	held chan string   // the methods and paths of held requests
	ice  chan struct{} // nil: watches flow; otherwise they are held until it is closed; guarded by mu
}

func newGate(t *testing.T, kubeconfig string) *gate {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{held: make(chan string, 1000)}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watches
		ModifyResponse: g.answer,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	g.kubeconfig = kubeconfigOf(t, server.URL)
	return g
}

// kubeconfigOf returns a kubeconfig for a server that needs no credentials.
func kubeconfigOf(t *testing.T, address string) string {
	t.Helper()
	return harness.WriteFile(t, "kubeconfig", `
apiVersion: v1
kind: Config
clusters: [{name: one, cluster: {server: `+address+`}}]
users: [{name: one, user: {}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
current-context: one
`)
}

// answer handles a response. It holds one back until informd no longer waits for it.
func (g *gate) answer(resp *http.Response) error {
	r := resp.Request
	g.mu.Lock()
	hold := g.shut != nil && g.shut(r)
	g.mu.Unlock()
	if !hold {
		if r.URL.Query().Get("watch") != "" {
			resp.Body = watched{resp.Body, g, r.Context()}
		}
		return nil
	}
	g.held <- r.Method + " " + r.URL.Path
	<-r.Context().Done()
	_ = resp.Body.Close()
	return io.ErrUnexpectedEOF
}

// close holds back the responses to requests that match. nil opens the gate.
func (g *gate) close(match func(*http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = match
}

// freeze holds back what watches bring from now on. thaw lets them flow again.
func (g *gate) freeze() (thaw func()) {
	ice := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ice = ice
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ice = nil
		close(ice)
	}
}

// watched is what a watch brings, which a gate can hold back.
type watched struct {
	io.ReadCloser
	gate *gate
	ctx  context.Context // of the watch
}

func (w watched) Read(p []byte) (n int, err error) {
	n, err = w.ReadCloser.Read(p)
	w.gate.mu.Lock()
	ice := w.gate.ice
	w.gate.mu.Unlock()
	if ice != nil {
		select {
		case <-ice:
		case <-w.ctx.Done():
		}
	}
	return n, err
}

// writes matches requests that change something. informd also asks what it may do, with a POST.
func writes(r *http.Request) bool {
	return r.Method != http.MethodGet && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}

// awaitHeld waits until the gate holds that many responses.
func (g *gate) awaitHeld(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		select {
		case <-g.held:
		case <-time.After(harness.Patience):
			t.Fatalf("%d changes of %d were asked for", i, n)
		}
	}
}
