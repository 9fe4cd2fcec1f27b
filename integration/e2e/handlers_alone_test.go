package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest/testca"
	"github.com/informd/informd/plugins/serve"
)

// hangingCommand, as the first argument, makes the test binary a harness.Hanging with its files in
// the folder that the second argument names. With HANGING_ADDRESS in the environment it is a remote
// handler.
const hangingCommand = "hanging"

func serveHanging(dir string) {
	h, err := harness.NewHanging(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	address := os.Getenv("HANGING_ADDRESS")
	if address == "" {
		serve.Main(h)
		return
	}
	err = serve.Remote(h, serve.RemoteOptions{
		Address: address, CertFile: filepath.Join(dir, "hanging.pem"),
		KeyFile:      filepath.Join(dir, "hanging.key"),
		ClientCAFile: filepath.Join(dir, "ca.pem"),
	})
	fmt.Fprintln(os.Stderr, err)
}

// Objects for which a handler hangs do not keep the others waiting, whatever the handler is.
func TestHangingObjectsAreAlone(t *testing.T) {
	t.Parallel()
	for _, hung := range []int{10, 100} {
		t.Run(fmt.Sprint(hung), func(t *testing.T) {
			t.Parallel()
			t.Run("Go", func(t *testing.T) {
				t.Parallel()
				dir := harness.ShortDir(t)
				harness.WantAlone(t, dir, fmt.Sprintf("command: [%q, %s, %q]", os.Args[0], hangingCommand, dir), hung)
			})
			t.Run("webhook", func(t *testing.T) {
				t.Parallel()
				dir := harness.ShortDir(t)
				h, err := harness.NewHanging(dir)
				if err != nil {
					t.Fatal(err)
				}
				server := httptest.NewServer(hook(h))
				defer server.Close()
				harness.WantAlone(t, dir, fmt.Sprintf("builtin: webhook, config: {url: %q}", server.URL), hung)
			})
			t.Run("remote", func(t *testing.T) {
				t.Parallel()
				dir := harness.ShortDir(t)
				ca := testca.New(t, dir, "ca")
				address := harness.FreeAddress(t)
				host, _, _ := net.SplitHostPort(address)
				ca.Issue(t, "hanging", host)
				cert, key := ca.Issue(t, "informd")
				cmd := exec.Command(os.Args[0], hangingCommand, dir)
				cmd.Env = append(os.Environ(), "HANGING_ADDRESS="+address)
				cmd.Stderr = os.Stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
				harness.WantAlone(t, dir, fmt.Sprintf("address: %q, tls: {ca: %q, cert: %q, key: %q}",
					"dns:///"+address, ca.File, cert, key), hung)
			})
		})
	}
}

// hook is a server for the webhook builtin that asks h.
func hook(h handler.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var event struct{ Data handler.Event }
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if _, err := h.Handle(ctx, event.Data); err != nil {
			http.Error(w, "", http.StatusInternalServerError)
		}
	}
}
