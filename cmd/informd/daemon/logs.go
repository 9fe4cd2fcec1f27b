package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/informd/informd/cmd/informd/cli"
)

// The values of --log-format and --log-level.
var (
	logFormats = []string{"text", "json"}
	logLevels  = []string{"debug", "info", "warn", "error"}
)

// newLogger returns the daemon's logger, which writes one line per record, and in text stacks below
// it. It also makes client-go log there.
func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var threshold slog.Level
	known := slices.Contains(logLevels, strings.ToLower(level))
	if !known || threshold.UnmarshalText([]byte(level)) != nil {
		return nil, fmt.Errorf("--log-level %q: want %s", level, cli.OneOf(logLevels))
	}
	options := &slog.HandlerOptions{Level: threshold}
	var handler slog.Handler
	switch format {
	case "text":
		handler = cli.NewTextLog(w, options)
	case "json":
		options.ReplaceAttr = readable
		handler = slog.NewJSONHandler(w, options)
	default:
		return nil, fmt.Errorf("--log-format %q: want %s", format, cli.OneOf(logFormats))
	}
	klog.SetLogger(logr.FromSlogHandler(handler).WithName("client-go"))
	return slog.New(handler), nil
}

// readable writes durations as "1.5s" in JSON, as in text, instead of a number of nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
