package locate

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Nobody else gets the credentials by a redirection: no client that is made from the configuration
// follows one to another server, whatever its status.
func TestRedirectsToOthersAreNotFollowed(t *testing.T) {
	t.Parallel()
	var stolen atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen.Add(1)
		t.Errorf("%s %s, Authorization %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer thief.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer hush" {
				t.Errorf("the API server gets %q", r.Header.Get("Authorization"))
			}
			w.Header().Set("Location", thief.URL+"/take\u009b2J")
			w.WriteHeader(code)
		}))
		cfg, err := Cluster(kubeconfigOf(t, api), "")
		if err != nil {
			t.Fatal(err)
		}
		for name, ask := range map[string]func() error{
			"HTTP": func() error {
				client, err := rest.HTTPClientFor(cfg)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Get(cfg.Host + "/version")
				if err == nil {
					_ = resp.Body.Close()
				}
				return err
			},
			"a wrapped copy": func() error { // as for watches
				copied := rest.CopyConfig(cfg)
				copied.Wrap(func(next http.RoundTripper) http.RoundTripper { return next })
				client, err := rest.HTTPClientFor(copied)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Post(cfg.Host+"/api", "text/plain", strings.NewReader("x"))
				if err == nil {
					_ = resp.Body.Close()
				}
				return err
			},
			"discovery": func() error {
				_, err := discovery.NewDiscoveryClientForConfigOrDie(cfg).ServerVersion()
				return err
			},
			"metadata": func() error {
				r := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
				_, err := metadata.NewForConfigOrDie(cfg).Resource(r).List(t.Context(), metav1.ListOptions{})
				return err
			},
		} {
			err := ask()
			want := fmt.Sprintf("answers %d and redirects to %s/take", code, thief.URL)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\u009b") {
				t.Errorf("%d, %s: %v", code, name, err)
			}
		}
		api.Close()
	}
	if n := stolen.Load(); n > 0 {
		t.Errorf("%d requests were redirected", n)
	}
}

// The API server redirects to itself: whoever asks for an OpenAPI document that has changed since is
// sent to the new one.
func TestRedirectsToTheServerItself(t *testing.T) {
	t.Parallel()
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		where := r.URL.Query().Get("to")
		if where == "" {
			_, _ = io.WriteString(w, "there")
			return
		}
		w.Header().Set("Location", strings.ReplaceAll(where, "HOST", r.Host))
		w.WriteHeader(http.StatusMovedPermanently)
	}))
	defer api.Close()
	cfg, err := Cluster(kubeconfigOf(t, api), "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, to string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+"/openapi?to="+url.QueryEscape(to), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return string(text)
	}
	for _, to := range []string{"/openapi/v3?hash=B", "v3", "https://HOST/x"} {
		if got := ask("GET", to); got != "there" {
			t.Errorf("to %s: %s", to, got)
		}
	}
	for _, to := range []string{"http://HOST/x", "//127.0.0.1:1/", "https://u@HOST/x", "https://HOST.evil.example/"} {
		if got := ask("GET", to); !strings.Contains(got, "does not send its credentials") {
			t.Errorf("to %s: %s", to, got)
		}
	}
	if got := ask("POST", "/x"); !strings.Contains(got, "does not send its credentials") {
		t.Errorf("POST: %s", got)
	}
	if got := ask("GET", "/openapi?to=%2Fopenapi%3Fto%3D%252F"); got != "there" {
		t.Errorf("three times: %s", got)
	}
}

func kubeconfigOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %q}}], users: [{name: c, user: {token: hush}}],
contexts: [{name: c, context: {cluster: c, user: c}}]}`, server.URL, base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
