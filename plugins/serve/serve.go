// Package serve turns a [handler.Handler] into an executable that informd runs:
//
//	func main() { serve.Main(handler.Func(handle)) }
//
//	func handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
//		slog.InfoContext(ctx, "changed") // and which object, from ctx
//		return handler.Answer{}, nil
//	}
//
// It speaks plugins/handlerpb over gRPC and does what every handler needs: it batches answers,
// turns time limits and cancels into contexts, recovers panics, sends logs to informd's with their
// level, and ends with informd. It gives the handler what package handler promises, and calls
// Handle only after Configure has accepted the config. An event of an informd that no longer leads it
// answers with a retry, and does not call the handler: it remembers the newest [handler.Epoch] of
// each of the 64 groups of replicas that were last seen, for the life of the process.
//
// [Remote] serves a handler that informd does not start but connects to.
//
// Of go-plugin it uses plugin.Serve with a gRPC server: the magic cookie, the handshake line, TLS
// over the handshake (AutoMTLS), grpc.health.v1, and the controller's Shutdown. So any go-plugin
// client can start and drive the handler, not only informd: with [Handshake] and [Plugin], which
// are also for programs that call plugin.Serve themselves. It uses neither the broker, because a
// handler needs no second service, nor go-plugin's copies of the standard streams, which lose what
// a handler writes before it exits. Remote uses nothing of go-plugin.
//
// The package knows nothing of Kubernetes, of rules or of the daemon behind the connection.
package serve

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// Main serves h to the informd that started this process. It returns when the process is to end,
// and the caller has nothing left to do then. Main sets slog's default logger to one whose lines
// reach informd's log with their level and the handler's name. What goes to package log or to
// standard error reaches it too.
//
// Standard output belongs to the protocol until Main has begun: do not print before.
//
// If something other than informd starts the process, Main explains what the program is and exits
// with status 1. If INFORMD_EVENTS is set, Main handles events from that file instead, or from
// standard input if it is -, as it would under informd. It writes the answer to each event to
// standard output, one JSON object per line, and logs to standard error as text. INFORMD_CONFIG
// names a file with the config as JSON. INFORMD_TIMEOUT is the time limit of an event (default 30s;
// 0 is none). The exit status is 0 if all events were done, 1 if some were not, and 2 if the input
// or the config is wrong.
func Main(h handler.Handler) {
	name := filepath.Base(os.Args[0])
	if !Hosted() && os.Getenv(envEvents) != "" {
		mainByHand(h, name)
	}
	if !Hosted() {
		fmt.Fprintf(os.Stderr, byHand, name)
		os.Exit(1)
	}
	// go-plugin replaces os.Stdout and os.Stderr by pipes, copies them over the connection, and
	// loses what a handler writes just before it exits. informd reads the streams themselves.
	stdout, stderr := os.Stdout, os.Stderr
	slog.SetDefault(slog.New(logHandler(stderr)))

	restore := sync.OnceFunc(func() { os.Stdout, os.Stderr = stdout, stderr })
	s := &service{handler: h, name: name, begun: restore}
	go ignoreSignals(s)
	go followHost(s)
	defer runtime.KeepAlive(ballast())
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake,
		Plugins:         plugin.PluginSet{handlerpb.PluginName: &Plugin{service: s}},
		GRPCServer:      GRPCServer,
		Logger: hclog.New(&hclog.LoggerOptions{
			Level: hclog.Warn, Output: stderr, JSONFormat: true,
		}),
	})
}

// ballast returns memory that nobody touches. The kernel never provides it, but the garbage
// collector counts it. Events are garbage as soon as they are handled, so in Go's smallest heap of
// 4 MB a handler that keeps little spends two fifths of its CPU time on collections. With the
// ballast its heap grows to some 20 MB. GOGC or GOMEMLIMIT in the environment is a choice to do
// without.
func ballast() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, 8<<20)
}

// Hosted reports whether informd started this process. A program that is more than a handler calls
// it before Main.
func Hosted() bool { return os.Getenv(handlerpb.CookieKey) == handlerpb.CookieValue }

const byHand = `%[1]s is a handler for informd. informd starts it and sends it changes in a
Kubernetes cluster; it does nothing by itself. To use it, name it in a manifest:

  apiVersion: informd.dev/v1alpha1
  kind: Handler
  metadata: {name: %[1]s}
  spec:
    command: [/path/to/%[1]s]

To see whether it starts and accepts its config:  informd check --handlers -f MANIFEST

To try it on made-up events, and see its answers:  informd handler try /path/to/%[1]s

To run it in a debugger without informd, give it events (what informd's log builtin writes) and its
config as JSON:

  INFORMD_EVENTS=events.jsonl INFORMD_CONFIG=config.json %[1]s

INFORMD_EVENTS=- reads standard input. INFORMD_TIMEOUT=0 takes away the time limit, for a debugger.
`

// ignoreSignals keeps signals that are meant for informd, but reach its whole process group or
// cgroup, from ending the process before informd has drained it. After the drain, SIGTERM comes
// from informd and ends the process.
func ignoreSignals(s *service) {
	signals := make(chan os.Signal, 1) // further ones that come meanwhile add nothing
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	for sig := range signals {
		if sig == syscall.SIGTERM && s.drained.Load() {
			exit(0)
		}
	}
}

// followHost ends the process when informd is gone. informd holds the other end of standard input
// and never writes to it. The kernel closes it however informd ends.
func followHost(s *service) {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return // not started by informd's host; nothing to follow
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.drainOnce()
	exit(0)
}

// exit ends the process and empties its socket directory, which no other process uses.
func exit(status int) {
	if dir := os.Getenv(plugin.EnvUnixSocketDir); dir != "" {
		sockets, _ := filepath.Glob(filepath.Join(dir, "plugin*"))
		for _, socket := range sockets {
			_ = os.Remove(socket)
		}
		_ = os.Remove(dir)
	}
	os.Exit(status)
}
