// Package log is the builtin that writes each event as a line of JSON, to a file or to the daemon's
// standard output.
//
// An event is done when write(2) has taken its whole line. The builtin buffers nothing, and does
// not flush the disk (fsync). It writes events that come together in one call, if the output is a
// file, or a pipe that is empty. Otherwise it writes up to 4096 bytes of them in one, and a longer
// line in one. If a write fails, informd retries the event, so no event is lost, but a line may be
// there twice. The writer of a line that was cut short ends it before its next one. When the file is
// rotated away, the builtin opens a new one within a second.
//
// It does not rotate files, and knows nothing of their sizes. The lines of several writers do not mix
// in a file. In a pipe, log handlers take turns, with a lock: one that is stopped during its turn
// holds up the others, until informd kills it. The lines of other writers may mix with theirs, as the
// kernel keeps only 4096 bytes together.
package log

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/builtin/internal/eventjson"
	"github.com/informd/informd/plugins/handler"
)

// Handler is the log builtin. New returns one.
type Handler struct {
	out *output // set by Configure
}

// New returns a log builtin. It takes events once it is configured.
func New() *Handler { return new(Handler) }

const schema = `{"type":"object","additionalProperties":false,` +
	`"properties":{"path":{"type":"string","minLength":1}}}`

// Describe implements handler.Describer.
func (*Handler) Describe() handler.Description {
	return handler.Description{Name: "log", ConfigSchema: json.RawMessage(schema)}
}

// config is a manifest's config.
type config struct {
	Path *string `json:"path"` // nil: standard output

	_ struct{} `instead:"file: path names the file"`
}

// Validate checks that lines can be written to the path. handler.DecodeConfig calls it.
func (c config) Validate() error {
	switch {
	case c.Path == nil:
		return nil
	case *c.Path == "":
		return errors.New("path: must not be empty")
	}
	return checkPath(*c.Path)
}

// Configure implements handler.Configurer. It checks that lines can be written, but creates no
// file: the first event does, because configs are also checked where nothing runs.
func (h *Handler) Configure(_ context.Context, raw json.RawMessage) error {
	c, err := handler.DecodeConfig(raw, config{})
	if err != nil {
		return err
	}
	if c.Path != nil {
		h.out = newOutput(*c.Path)
		return nil
	}
	file, err := standardOutput()
	if err != nil {
		return err
	}
	out := newOutput("")
	out.file, out.whole, out.pipe = file, isRegular(file), openPipe(file)
	h.out = out
	return nil
}

// buffers holds lines between events; a buffer that grew past maxBuffer is dropped.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxBuffer = 64 << 10

// Handle writes ev's line. It returns when the context ends, even if the write hangs.
func (h *Handler) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	return handler.Answer{}, h.HandleBatch(ctx, []handler.Event{ev})[0].Err
}

// HandleBatch implements handler.Batcher: it writes one line for each event.
func (h *Handler) HandleBatch(ctx context.Context, events []handler.Event) []handler.Result {
	results := make([]handler.Result, len(events))
	if h.out == nil {
		for i := range results {
			results[i].Err = errors.New("log is not configured")
		}
		return results
	}
	buf := buffers.Get().(*[]byte)
	text := (*buf)[:0]
	ends := make([]int, len(events)) // of the lines, in text
	for i, ev := range events {
		line, err := eventjson.Append(text, ev)
		if err != nil {
			results[i].Err = handler.Reject(err) // no attempt will go better
		} else {
			at := len(text)
			text = append(append(line[:at], printable.JSON(line[at:])...), '\n')
		}
		ends[i] = len(text)
	}
	*buf = text
	n, err := h.out.write(ctx, text, ends, func() {
		if cap(*buf) <= maxBuffer {
			buffers.Put(buf)
		}
	})
	for i := range results {
		if results[i].Err == nil && ends[i] > n {
			results[i].Err = err
		}
	}
	return results
}

// Health implements handler.HealthChecker: it returns why the last write failed,
// until one succeeds.
func (h *Handler) Health(context.Context) error {
	if h.out == nil {
		return nil
	}
	if failure := h.out.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// Drain implements handler.Drainer: it waits for a write that hangs, and closes the file.
func (h *Handler) Drain(ctx context.Context) error {
	if h.out == nil {
		return nil
	}
	return h.out.close(ctx)
}
