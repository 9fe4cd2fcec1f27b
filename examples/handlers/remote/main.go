// Command remote is a handler for informd that runs as a Deployment of its own, any number of
// times. It writes a line for each change. kubernetes.yaml has all that a cluster needs for it, and
// informd.yaml what informd does.
//
// It is an example of a handler by a third party: it imports plugins/handler and plugins/serve and
// nothing else of informd.
package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

func main() {
	h := handler.Func(handle)
	if serve.Hosted() { // informd started it: the manifest has a command, not an address
		serve.Main(h)
		return
	}
	slog.SetDefault(slog.New(serve.EventLog(slog.NewJSONHandler(os.Stdout, nil))))
	files := cmp.Or(os.Getenv("TLS_DIR"), "/tls")
	err := serve.Remote(h, serve.RemoteOptions{
		Address:      cmp.Or(os.Getenv("ADDRESS"), ":8443"),
		CertFile:     filepath.Join(files, "tls.crt"),
		KeyFile:      filepath.Join(files, "tls.key"),
		ClientCAFile: filepath.Join(files, "ca.crt"),
	})
	if err != nil {
		slog.Error("cannot serve", "error", err)
		os.Exit(1)
	}
}

// handle is called for different objects at once, and never twice at once for one. Work that takes
// time has to stop when ctx ends: the connection broke, or the time is over, and another Pod may be
// given the same event.
func handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	slog.InfoContext(ctx, "changed", "event", ev.Event, "attempt", ev.Attempt) // and which, from ctx
	return handler.Answer{}, nil
}
