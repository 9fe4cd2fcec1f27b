package bounded

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// hostile is an API server whose answers begin well and have no end.
func hostile(t *testing.T, isPacked bool) (config *rest.Config, sent *atomic.Int64) {
	sent = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var out io.Writer = w
		if isPacked && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			defer packed.Close()
			out = packed
		}
		n, err := io.WriteString(out, `{"kind":"APIResourceList","apiVersion":"v1","resources":[{}`)
		more := strings.Repeat(",{}", 10_000)
		for ; err == nil && sent.Load() < 1<<30; n, err = io.WriteString(out, more) {
			sent.Add(int64(n))
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1}, sent
}

// An endless answer costs its bound, also one that is small on the wire.
func TestEndlessAnswers(t *testing.T) {
	for _, isPacked := range []bool{false, true} {
		config, sent := hostile(t, isPacked)
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		direct, err := discovery.NewDiscoveryClientForConfigAndClient(config, Client(client))
		if err != nil {
			t.Fatal(err)
		}
		config.Wrap(Transport)
		wrapped, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what string
			ask  func() error
			want string
		}{
			{"resources", func() error { _, err := direct.ServerResourcesForGroupVersion("v1"); return err }, "more than 8 MiB"},
			{"resources of a group", func() error { _, err := wrapped.ServerResourcesForGroupVersion("apps/v1"); return err }, "more than 8 MiB"},
			{"groups", func() error { _, err := direct.ServerGroups(); return err }, "more than 8 MiB"},
			{"all resources", func() error { _, err := wrapped.ServerPreferredResources(); return err }, "more than 8 MiB"},
			{"schemas", func() error { _, err := direct.OpenAPIV3().Paths(); return err }, "more than 64 MiB"},
			{"an object", func() error {
				return direct.RESTClient().Get().AbsPath("/api/v1/namespaces/kube-system").Do(t.Context()).Error()
			}, "more than 32 MiB"},
		} {
			sent.Store(0)
			err := c.ask()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", c.what, err, c.want)
			}
			if sent.Load() >= 1<<30 {
				t.Errorf("%s: it read all", c.what)
			}
		}
	}
}

func TestAnswersWithinTheBoundAreWhole(t *testing.T) {
	for _, size := range []int{0, 1, MaxDiscovery - 1, MaxDiscovery, MaxDiscovery + 1} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", size))
		}))
		answer, err := Client(server.Client()).Get(server.URL + "/apis")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if fits := size <= MaxDiscovery; fits != (err == nil) || fits && len(text) != size {
			t.Errorf("of %d bytes, %d came, and %v", size, len(text), err)
		}
		server.Close()
	}
}

func TestBoundsByPath(t *testing.T) {
	for path, want := range map[string]int64{
		"/api": MaxDiscovery, "/apis": MaxDiscovery, "/api/v1": MaxDiscovery, "/apis/apps/v1": MaxDiscovery,
		"/k8s/clusters/c-1/apis/apps/v1": MaxDiscovery, "/openapi/v3/apis/apps/v1": MaxOpenAPI, "/openapi/v3": MaxOpenAPI,
		"/proxy/openapi/v3/api/v1": MaxOpenAPI,
		"/api/v1/namespaces/x":     MaxObject, "/apis/a/v1/namespaces/openapi/pods/x": MaxObject, "/version": MaxObject,
		"/api/v1/namespaces": MaxObject,
	} {
		if got := maxOf(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
