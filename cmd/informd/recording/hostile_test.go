package recording

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/object"
)

// An API server is not trusted for size: what has no end ends the recording, or that watch.
func TestEndlessAnswers(t *testing.T) {
	more := strings.Repeat("x", 1<<20)
	endless := func(w http.ResponseWriter, before string) {
		_, err := io.WriteString(w, before)
		for n := 0; err == nil && n < 1<<10; n++ {
			_, err = io.WriteString(w, more)
		}
	}
	page := func(w http.ResponseWriter, token, items string) {
		_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":%q},"items":[%s]}`, token, items)
	}
	for name, c := range map[string]struct {
		answer  func(w http.ResponseWriter, r *http.Request)
		watches bool
		want    string
	}{
		"a page":           {func(w http.ResponseWriter, _ *http.Request) { endless(w, `{"kind":"`) }, false, "more than informd takes"},
		"an event":         {func(w http.ResponseWriter, _ *http.Request) { endless(w, `{"type":"`) }, true, "more than informd takes"},
		"empty pages":      {func(w http.ResponseWriter, r *http.Request) { page(w, r.URL.Query().Get("continue")+"x", "") }, false, "does not get on"},
		"a page to itself": {func(w http.ResponseWriter, _ *http.Request) { page(w, "x", `{"metadata":{"name":"a"}}`) }, false, "does not get on"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(c.answer))
			defer server.Close()
			selection := object.Selection{}
			selection.Resource.Version, selection.Resource.Resource = "v1", "pods"
			r, _ := memory(t, selection)
			client, err := newClient(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			r.client = client
			f := &follower{recorder: r, Selection: selection, known: map[string]identity{}}
			if c.watches {
				err, _ = f.watch(context.Background())
			} else {
				_, err = f.list(context.Background())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
