// Package log is the builtin that writes each event as a line of JSON, to a file or to the daemon's standard output.
//
// An event is done when write(2) has taken its whole line, in one call; nothing is flushed to the disk (fsync) and
// nothing is buffered here. A write that fails is retried, as any handler's error is, so that no event is lost: a line
// may then be there twice, and a line that was cut short is ended before the next one begins. A file that was rotated
// away is opened anew within a second.
//
// It does not know of rotation by itself, of sizes, or of other writers: lines of several of them do not mix in a file,
// but may in a pipe, where the kernel keeps only 4096 bytes together.
package log

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/informd/informd/plugins/builtin/internal/eventjson"
	"github.com/informd/informd/plugins/builtin/internal/strict"
	"github.com/informd/informd/plugins/handler"
)

// Handler is the log builtin. New makes one.
type Handler struct {
	out *output // set by Configure
}

// New makes a log builtin, which takes events once it is configured.
func New() *Handler { return new(Handler) }

const schema = `{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","minLength":1}}}`

// Describe implements handler.Describer.
func (*Handler) Describe() handler.Description {
	return handler.Description{Name: "log", ConfigSchema: json.RawMessage(schema)}
}

// Configure implements handler.Configurer. It makes sure that lines can be written, but creates no file: that is left
// to the first event, because configs are also checked where nothing runs.
func (h *Handler) Configure(_ context.Context, config json.RawMessage) error {
	var path string
	if err := strict.Decode(config, strict.Fields{"path": &path}); err != nil {
		return err
	}
	out := newOutput(path)
	if path == "" {
		file, err := standardOutput()
		if err != nil {
			return err
		}
		out.file = file
	} else if err := checkPath(path); err != nil {
		return err
	}
	h.out = out
	return nil
}

// buffers holds lines between events; one that grew past maxBuffer is let go.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxBuffer = 64 << 10

// Handle writes ev's line. It returns when the context ends, even where the write hangs.
func (h *Handler) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	if h.out == nil {
		return handler.Answer{}, errors.New("log is not configured")
	}
	buf := buffers.Get().(*[]byte)
	release := func() {
		if cap(*buf) <= maxBuffer {
			buffers.Put(buf)
		}
	}
	line, err := eventjson.Append((*buf)[:0], ev)
	if err != nil {
		release()
		return handler.Answer{}, handler.Reject(err) // no attempt will go better
	}
	*buf = append(line, '\n')
	return handler.Answer{}, h.out.write(ctx, *buf, release)
}

// Health implements handler.HealthChecker: it tells why the last write failed, until one succeeds.
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
