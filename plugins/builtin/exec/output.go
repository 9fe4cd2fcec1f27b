package exec

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
)

// Bounds of the output of one command.
const (
	maxLine  = 8 << 10 // bytes of a line; the rest of it is left out
	maxLines = 100     // of both streams together; the rest is counted
)

// output logs what a command prints.
type output struct {
	log     func() *slog.Logger // for the next line
	most    int64               // lines; 0: any number, because informd's own bound is enough
	lines   atomic.Int64
	streams []*stream
}

func newOutput(log func() *slog.Logger, most int64) *output {
	return &output{log: log, most: most}
}

// stream returns the writer for one of the command's streams. Each stream has one goroutine that
// writes to it; streams are written to concurrently.
func (o *output) stream(name string) io.Writer {
	s := &stream{output: o, name: name}
	o.streams = append(o.streams, s)
	return s
}

// end logs lines without an end, and how much was left out. No write may follow.
func (o *output) end() {
	for _, s := range o.streams {
		if len(s.line) > 0 {
			s.emit()
		}
	}
	if beyond := o.lines.Load() - o.most; o.most > 0 && beyond > 0 {
		o.log().Warn("command output cut", "lines", o.most, "left_out", beyond)
	}
}

// stream cuts what is written to it into lines. It holds at most maxLine bytes.
type stream struct {
	output *output
	name   string
	line   []byte
	cut    bool // line has reached its bound, and lost what followed
}

// Write implements io.Writer. It accepts everything and never fails, so it never blocks the
// command.
func (s *stream) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		room := maxLine - len(s.line)
		s.line = append(s.line, part[:min(len(part), room)]...)
		s.cut = s.cut || len(part) > room
		if ended {
			s.emit()
		}
		p = rest
	}
	return written, nil
}

func (s *stream) emit() {
	line, cut := bytes.TrimSuffix(s.line, []byte{'\r'}), s.cut
	s.line, s.cut = s.line[:0], false
	if len(line) == 0 || s.output.lines.Add(1) > s.output.most && s.output.most > 0 {
		return
	}
	attributes := []any{"stream", s.name, "line", strings.ToValidUTF8(string(line), "\uFFFD")}
	if cut {
		attributes = append(attributes, "cut", true)
	}
	s.output.log().Info("command output", attributes...) // package output knows such lines by this text
}

// answerText collects what a command prints as its answer, up to a byte more than maxAnswer.
type answerText struct{ text []byte }

// Write implements io.Writer. It accepts everything and never fails.
func (a *answerText) Write(p []byte) (int, error) {
	room := maxAnswer + 1 - len(a.text)
	a.text = append(a.text, p[:min(len(p), room)]...)
	return len(p), nil
}
