package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/informd/informd/internal/printable"
)

// NewTextLog returns slog's text handler, but for attributes of several lines, such as stacks: they
// stand below the line, one after the other, and people can read them. Each of their lines begins
// with "    | ", so that no text can forge a line of the log.
func NewTextLog(w io.Writer, options *slog.HandlerOptions) slog.Handler {
	to := &page{w: w}
	return textLog{slog.NewTextHandler(&to.text, options), to}
}

// Untimed, as ReplaceAttr of slog.HandlerOptions, leaves the time out of lines.
func Untimed(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

type textLog struct {
	slog.Handler
	to *page
}

// page is where a textLog and those derived from it write. mu guards text, which the embedded
// handlers write to. No other lock is taken under it but theirs.
type page struct {
	w    io.Writer
	mu   sync.Mutex
	text bytes.Buffer // empty between lines
}

// Handle implements slog.Handler. It writes a record with one Write.
func (h textLog) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	var below []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindString && strings.Contains(a.Value.String(), "\n") {
			below = append(below, a)
		} else {
			line.AddAttrs(a)
		}
		return true
	})
	h.to.mu.Lock()
	defer h.to.mu.Unlock()
	h.to.text.Reset()
	if err := h.Handler.Handle(ctx, line); err != nil {
		return err
	}
	for _, a := range below {
		h.to.text.WriteString("    | " + a.Key + ":\n")
		for text := range strings.SplitSeq(a.Value.String(), "\n") {
			indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
			h.to.text.WriteString("    |   " + indent + printable.Line(text, len(text)) + "\n")
		}
	}
	_, err := h.to.w.Write(h.to.text.Bytes())
	return err
}

// WithAttrs implements slog.Handler.
func (h textLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return textLog{h.Handler.WithAttrs(attrs), h.to}
}

// WithGroup implements slog.Handler.
func (h textLog) WithGroup(name string) slog.Handler {
	return textLog{h.Handler.WithGroup(name), h.to}
}
