package serve

import (
	"io"
	"log/slog"
	"os"

	"github.com/informd/informd/plugins/handlerpb"
)

// logHandler writes one JSON object per line in the shape of hclog, which informd (and any other go-plugin host) reads:
// {"@level":"info","@message":"…","@timestamp":"…", …}. Below the level that informd shows, nothing is written.
func logHandler(w io.Writer) slog.Handler {
	level := slog.LevelInfo
	if text := os.Getenv(handlerpb.EnvLogLevel); text != "" {
		_ = level.UnmarshalText([]byte(text)) // one that is not known leaves info
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: hclogShape})
}

// hclogShape renames slog's own attributes. One of the handler's that happens to have the same name keeps it where its
// value tells the two apart.
func hclogShape(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		if a.Value.Kind() == slog.KindTime {
			a.Key = "@timestamp"
		}
	case slog.LevelKey:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String("@level", levelName(level))
		}
	case slog.MessageKey:
		a.Key = "@message"
	}
	return a
}

// levelName names a level as hclog does; what lies between two levels counts as the lower.
func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	default:
		return "error"
	}
}
