// This file owns what raft's own log lines become: debug lines of the member's logger.

package replica

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// debugSink passes lines on at the level debug. What operators should know, this package logs.
type debugSink struct{ log *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s debugSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	if level < hclog.Debug || !s.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	s.log.Debug(msg, append([]any{"by", name, "severity", level.String()}, args...)...)
}

// hcLogger returns a logger for raft and its log store.
func hcLogger(log *slog.Logger, name string) hclog.Logger {
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: name, Output: io.Discard, Level: hclog.Off,
	})
	logger.RegisterSink(debugSink{log})
	return logger
}

// quiet discards what the HTTP server says of broken connections.
var quiet = log.New(io.Discard, "", 0)
