package serve

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// logHandler writes one JSON object per line, as hclog does and informd, like any go-plugin host,
// reads: {"@level":"info","@message":"…","@timestamp":"…", …}. Below the level that informd shows,
// nothing is written.
func logHandler(w io.Writer) slog.Handler {
	options := &slog.HandlerOptions{Level: logLevel(), ReplaceAttr: hclogShape}
	return EventLog(slog.NewJSONHandler(w, options))
}

// EventLog returns a slog.Handler that adds to a line the event that the line's context is about,
// and passes it on to h: as in slog.InfoContext(ctx, …) with the context of Handle, or one derived
// from it. The attributes are rule, key (NAMESPACE/NAME, or NAME) and id. Attributes that the line
// has under these names stay. The context of HandleBatch is about no single event: see WithEvent.
//
// Main sets up slog that way. A program that calls Remote, or has a logger of its own, wraps its
// handler.
func EventLog(h slog.Handler) slog.Handler { return aboutEvent{h} }

// WithEvent returns a context that is about one event of a batch, as the context of Handle is about
// its event. It ends when ctx does, which is HandleBatch's:
//
//	for _, ev := range events {
//		slog.InfoContext(serve.WithEvent(ctx, ev), "counted")
//	}
func WithEvent(ctx context.Context, ev handler.Event) context.Context {
	return context.WithValue(ctx, eventKey{}, &ev)
}

type aboutEvent struct{ slog.Handler }

// Handle implements slog.Handler.
func (h aboutEvent) Handle(ctx context.Context, r slog.Record) error {
	attrs := aboutEventOf(ctx)
	if len(attrs) == 0 {
		return h.Handler.Handle(ctx, r)
	}
	r.Attrs(func(own slog.Attr) bool {
		attrs = slices.DeleteFunc(attrs, func(a slog.Attr) bool { return a.Key == own.Key })
		return true
	})
	r = r.Clone()
	r.AddAttrs(attrs...)
	return h.Handler.Handle(ctx, r)
}

// aboutEventOf returns attributes that name the event that ctx is about, if it is about one.
func aboutEventOf(ctx context.Context) []slog.Attr {
	ev := eventOf(ctx)
	if ev == nil {
		return nil
	}
	key := ev.Name
	if ev.Namespace != "" {
		key = ev.Namespace + "/" + ev.Name
	}
	attrs := []slog.Attr{
		slog.String("rule", ev.Rule), slog.String("key", key), slog.String("id", ev.ID),
	}
	return slices.DeleteFunc(attrs, func(a slog.Attr) bool { return a.Value.String() == "" })
}

// WithAttrs implements slog.Handler.
func (h aboutEvent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return aboutEvent{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h aboutEvent) WithGroup(name string) slog.Handler {
	return aboutEvent{h.Handler.WithGroup(name)}
}

// logLevel is the least level that is shown.
func logLevel() slog.Level {
	level := slog.LevelInfo
	if text := os.Getenv(handlerpb.EnvLogLevel); text != "" {
		_ = level.UnmarshalText([]byte(text)) // one that is not known leaves info
	}
	return level
}

// readableLog writes slog's text for a person who runs the handler by hand, with stacks below their
// lines.
func readableLog(w io.Writer) slog.Handler {
	text := slog.NewTextHandler(w, &slog.HandlerOptions{Level: logLevel()})
	return EventLog(stacksBelow{text, w})
}

// stacksBelow is a slog.Handler that writes the stack of a panic as it is, instead of within the
// line.
type stacksBelow struct {
	slog.Handler
	w io.Writer
}

func (h stacksBelow) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	var stack string
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == stackKey && a.Value.Kind() == slog.KindString {
			stack = a.Value.String()
		} else {
			line.AddAttrs(a)
		}
		return true
	})
	err := h.Handler.Handle(ctx, line)
	if stack != "" {
		_, _ = io.WriteString(h.w, stack)
	}
	return err
}

func (h stacksBelow) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stacksBelow{h.Handler.WithAttrs(attrs), h.w}
}

func (h stacksBelow) WithGroup(name string) slog.Handler {
	return stacksBelow{h.Handler.WithGroup(name), h.w}
}

// hclogShape renames slog's own attributes. An attribute of the handler's with the same name keeps
// it if its value tells the two apart.
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

// levelName returns hclog's name of a level. A level between two counts as the lower.
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
