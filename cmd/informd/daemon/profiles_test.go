package daemon

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
)

var profilePaths = []string{
	"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs",
	"/debug/pprof/goroutine", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline",
	"/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=0.1", "/debug/pprof/symbol",
}

func get(mux *http.ServeMux, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// Without --pprof the daemon serves no profile, although net/http/pprof has added its paths to
// http.DefaultServeMux.
func TestNoProfilesByDefault(t *testing.T) {
	mux := newMux(nil, nil, newMetrics("test", true), nil, nil, nil, false)
	for _, path := range profilePaths {
		if code := get(mux, path).Code; code != http.StatusNotFound {
			t.Errorf("%s: code %d, want 404", path, code)
		}
	}
}

// With --pprof the daemon serves the profiles. They do not hold what the memory contains, which may
// be a Secret.
func TestProfiles(t *testing.T) {
	secret := bytes.Repeat([]byte("hunter2 "), 1<<17) // large enough for the sampling to hit it
	mux := newMux(nil, nil, newMetrics("test", true), nil, nil, nil, true)
	for _, path := range profilePaths {
		w := get(mux, path)
		if w.Code != http.StatusOK {
			t.Errorf("%s: code %d: %s", path, w.Code, w.Body)
			continue
		}
		body := w.Body.Bytes()
		if zipped, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			if body, err = io.ReadAll(zipped); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		if len(body) == 0 || bytes.Contains(body, secret[:7]) {
			t.Errorf("%s: got %.200q", path, body)
		}
	}
	runtime.KeepAlive(secret)
}
