package host

import (
	"context"
	"log/slog"
)

// processLog returns the logger for what a process of s writes: log with the level of s, whatever
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
