package host_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// recorder is a log that tests can read: "LEVEL message key=value …".
type recorder struct {
	hear func(message string) // called for each message, unless nil

	mu  sync.Mutex
	all []string
}

func (r *recorder) logger() *slog.Logger { return slog.New(recording{r: r}) }

func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.all...)
}

// count returns how many lines have this message.
func (r *recorder) count(message string) int {
	n := 0
	for _, line := range r.lines() {
		_, text, _ := strings.Cut(line, " ")
		if strings.HasPrefix(text, message+" handler=") {
			n++
		}
	}
	return n
}

type recording struct {
	r     *recorder
	attrs []slog.Attr
}

func (h recording) Enabled(context.Context, slog.Level) bool { return true }
func (h recording) WithGroup(string) slog.Handler            { return h }
func (h recording) WithAttrs(attrs []slog.Attr) slog.Handler {
	return recording{r: h.r, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func (h recording) Handle(_ context.Context, rec slog.Record) error {
	if h.r.hear != nil {
		h.r.hear(rec.Message)
	}
	line := rec.Level.String() + " " + rec.Message
	for _, a := range h.attrs {
		line += " " + a.String()
	}
	rec.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.r.all = append(h.r.all, line)
	return nil
}
