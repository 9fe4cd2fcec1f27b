package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
)

// The builtins are ordinary handlers: they pass the conformance suite.
func TestBuiltinsConform(t *testing.T) {
	t.Parallel()
	const integer = "9007199254740993"
	t.Run("log", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "events.jsonl")
		handlertest.Run(t, handlertest.Options{
			Command: []string{harness.Binary, "handler", "serve", "log"},
			Env:     []string{"GORACE=" + os.Getenv("GORACE")},
			Config:  json.RawMessage(fmt.Sprintf(`{"path":%q}`, path)),
			Integers: func(handler.Event) error {
				return contains(path, integer)
			},
		})
	})
	t.Run("exec", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "events.jsonl")
		handlertest.Run(t, handlertest.Options{
			Command: []string{harness.Binary, "handler", "serve", "exec"},
			Env:     []string{"GORACE=" + os.Getenv("GORACE")},
			Config:  json.RawMessage(fmt.Sprintf(`{"command":["/bin/sh","-c","cat >> \"$0\"",%q]}`, path)),
			Integers: func(handler.Event) error {
				return contains(path, integer)
			},
		})
	})
	t.Run("webhook", func(t *testing.T) {
		t.Parallel()
		bodies := make(chan string, 1024) // more than the suite sends
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			bodies <- string(body)
		}))
		defer server.Close()
		handlertest.Run(t, handlertest.Options{
			Command: []string{harness.Binary, "handler", "serve", "webhook"},
			Env:     []string{"GORACE=" + os.Getenv("GORACE")},
			Config:  json.RawMessage(fmt.Sprintf(`{"url":%q}`, server.URL)),
			Integers: func(handler.Event) error {
				for len(bodies) > 0 {
					if strings.Contains(<-bodies, integer) {
						return nil
					}
				}
				return fmt.Errorf("%s was not posted", integer)
			},
		})
	})
}

// contains returns an error unless a file contains a text.
func contains(path, text string) error {
	written, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(written), text) {
		err = fmt.Errorf("%s is not in %s", text, path)
	}
	return err
}
