package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/informd/informd/plugins/handler"
)

// events reads events as JSON: what the log builtin writes, one per line, or spread over lines for
// people.
type events struct {
	path    string
	file    *os.File
	decoder *json.Decoder
	lines   lineCounter
	n       int // events so far
}

// openEvents opens a file of events, or standard input.
func openEvents(path string) (*events, error) {
	e := &events{path: path, file: os.Stdin}
	if path == "-" {
		e.path = "standard input"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		e.file = file
	}
	e.read(e.file)
	return e, nil
}

func (e *events) read(r io.Reader) {
	e.lines.r = r
	e.decoder = json.NewDecoder(&e.lines)
}

func (e *events) close() error { return e.file.Close() }

// next returns the next event and the line that it begins on, and io.EOF after the last. It fills
// in an attempt of 1 and an id if the event has none.
func (e *events) next() (ev handler.Event, line int, err error) {
	var value json.RawMessage
	switch err := e.decoder.Decode(&value); {
	case errors.Is(err, io.EOF):
		return ev, 0, err
	case err != nil:
		offset := e.lines.read
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			offset = syntax.Offset
		}
		return ev, 0, fmt.Errorf("events: %s:%d: %w", e.path, e.lines.at(offset), err)
	}
	line = e.lines.at(e.decoder.InputOffset() - int64(len(value)))
	if err := json.Unmarshal(value, &ev); err != nil {
		return ev, 0, fmt.Errorf("events: %s:%d: %w", e.path, line-1+lineOf(value, err), err)
	}
	if ev.Event == "" {
		return ev, 0, fmt.Errorf("events: %s:%d: no event: "+
			"it has no member \"event\" that says what happened. "+
			"informd's log builtin writes events", e.path, line)
	}
	e.n++
	ev.Attempt = max(1, ev.Attempt)
	if ev.ID == "" {
		ev.ID = fmt.Sprintf("by-hand/%d", e.n)
	}
	return ev, line, nil
}

// lineOf returns the line of text, from 1, that a decoding error is about.
func lineOf(text []byte, err error) int {
	var (
		offset int64
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	return 1 + bytes.Count(text[:min(max(0, offset-1), int64(len(text)))], []byte("\n"))
}

// lineCounter finds the lines of offsets in what is read through it. The offsets must ascend, so it
// keeps only the line breaks after the last one.
type lineCounter struct {
	r      io.Reader
	read   int64
	breaks []int64 // offsets of line breaks after the last offset
	passed int     // line breaks before
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.breaks = append(c.breaks, c.read+int64(i))
		}
	}
	c.read += int64(n)
	return n, err
}

// at returns the line, from 1, of an offset.
func (c *lineCounter) at(offset int64) int {
	n := 0
	for n < len(c.breaks) && c.breaks[n] < offset {
		n++
	}
	c.breaks = append(c.breaks[:0], c.breaks[n:]...)
	c.passed += n
	return c.passed + 1
}
