package handlertest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// lines keeps the last lines that were added.
type lines struct {
	mu   sync.Mutex
	kept []string // guarded by mu
}

const maxLogged = 100

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == maxLogged {
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	l.kept = append(l.kept, line)
}

func (l *lines) last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// lineWriter adds what is written to it to lines, one by one.
type lineWriter struct {
	to *lines

	mu    sync.Mutex
	begun []byte // guarded by mu: of a line that has no end yet
	last  string // guarded by mu: the last line that is not empty
}

const maxLine = 8 << 10 // bytes; a longer line is broken

func (w *lineWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = append(w.begun, text...)
	for {
		line, rest, found := bytes.Cut(w.begun, []byte{'\n'})
		if !found && len(w.begun) < maxLine {
			return len(text), nil
		}
		w.add(string(line))
		w.begun = append(w.begun[:0], rest...)
	}
}

// flush adds a last line that did not end.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.begun) > 0 {
		w.add(string(w.begun))
		w.begun = nil
	}
}

// add adds one line. w.mu is held.
func (w *lineWriter) add(line string) {
	if line = strings.TrimSpace(line); line != "" {
		w.last = line
	}
	w.to.add(readable(line))
}

func (w *lineWriter) lastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// readable returns a line that is JSON in hclog's shape as text, and any other line as it is.
func readable(line string) string {
	var fields map[string]any
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &fields) != nil {
		return line
	}
	message, ok := fields["@message"].(string)
	if !ok {
		return line
	}
	var level slog.Level
	if name, ok := fields["@level"].(string); ok {
		_ = level.UnmarshalText([]byte(name)) // another name, as trace, leaves info
	}
	record := slog.NewRecord(time.Time{}, level, message, 0)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !strings.HasPrefix(key, "@") {
			record.Add(key, fields[key])
		}
	}
	var text strings.Builder
	h := slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})
	_ = h.Handle(context.Background(), record)
	return strings.TrimSpace(text.String())
}
