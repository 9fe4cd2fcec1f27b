package host

import (
	"context"
	"log/slog"
	"slices"

	"github.com/informd/informd/plugins/host/output"
)

// processLog returns the logger for the output of a process of s: log with the level of s, whatever
// the level of log is.
func (s Spec) processLog(log *slog.Logger) *slog.Logger {
	var least slog.Level
	if s.LogLevel == "" || least.UnmarshalText([]byte(s.LogLevel)) != nil {
		return log
	}
	return slog.New(leveled{log.Handler(), least})
}

// leveled is a slog.Handler with a level of its own. The Handle of slog's handlers does not look at
// the level.
type leveled struct {
	slog.Handler
	least slog.Level
}

// Enabled implements slog.Handler.
func (h leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= h.least }

// WithAttrs implements slog.Handler.
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.least}
}

// WithGroup implements slog.Handler.
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.least}
}

// OwnLines returns a slog.Handler for a person who runs one handler by hand. It passes on to h what
// the handler writes, and warnings about it, without the attributes that are the same in all lines.
// The rest is about supervision.
func OwnLines(h slog.Handler) slog.Handler { return ownLines{h, false} }

type ownLines struct {
	slog.Handler
	isOwn bool // the line is the handler's
}

// Enabled implements slog.Handler.
func (h ownLines) Enabled(ctx context.Context, level slog.Level) bool {
	return (h.isOwn || level == slog.LevelWarn) && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h ownLines) WithAttrs(attrs []slog.Attr) slog.Handler {
	rest := slices.DeleteFunc(slices.Clone(attrs), func(a slog.Attr) bool {
		h.isOwn = h.isOwn || a.Key == output.ViaKey
		return a.Key == output.ViaKey || a.Key == "handler"
	})
	return ownLines{h.Handler.WithAttrs(rest), h.isOwn}
}

// WithGroup implements slog.Handler.
func (h ownLines) WithGroup(name string) slog.Handler {
	return ownLines{h.Handler.WithGroup(name), h.isOwn}
}
