package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/object/scan"
)

// stream is the body of one watch. It reads each frame in one pass. One goroutine uses it, except
// for waited.
type stream struct {
	body   *watchBody
	frames frameReader
	reader *entryReader
	scan   scan.Scanner
	lasts  time.Duration // what the request asked for; 0 if nothing
}

func newStream(body io.ReadCloser, r *entryReader) *stream {
	b := &watchBody{ReadCloser: body, made: time.Now()}
	return &stream{body: b, frames: newFrameReader(b), reader: r}
}

// close closes the body, which ends the watch.
func (s *stream) close() { _ = s.body.Close() }

// cut makes next return an error, also while it waits. Any goroutine may call it.
func (s *stream) cut() {
	if b, ok := s.body.ReadCloser.(*answerBody); ok {
		b.cut()
	}
}

// age returns how long ago the watch was opened.
func (s *stream) age() time.Duration { return time.Since(s.body.made) }

// waited returns how long next has been waiting for the server, and 0 if it is not.
func (s *stream) waited() time.Duration { return s.body.waited() }

// received is what next of a stream has returned.
type received struct {
	event watch.Event
	err   error
}

// read waits for an event, and appends it to all, with those that have come as a whole by then. all
// gets no longer than most. Whoever takes them wakes up once for all of them. An error is the last.
func (s *stream) read(all []received, most int) []received {
	for {
		ev, err := s.next()
		all = append(all, received{ev, err})
		if err != nil || len(all) >= most || !s.frames.hasLine() {
			return all
		}
	}
}

// next waits for an event, and returns it. The event has an *entry or a *metav1.Status. An error
// ends the watch; see isGarbled.
func (s *stream) next() (watch.Event, error) {
	frame, err := s.frames.next()
	if err != nil {
		return watch.Event{}, err
	}
	ev, err := s.event(frame)
	if err != nil {
		return watch.Event{}, fmt.Errorf("%w: %w", errNoFrame, err)
	}
	return ev, nil
}

// isGarbled reports whether err of next is about the text. Otherwise the body ended, or its
// connection.
func isGarbled(err error) bool {
	return errors.Is(err, errNoFrame) || errors.Is(err, errFrameTooBig)
}

// watchBody is the body of a response that says how long a Read has been waiting.
type watchBody struct {
	io.ReadCloser
	made  time.Time
	since atomic.Int64 // when the Read began, in nanoseconds after made; 0 if there is none
}

// Read implements io.Reader.
func (b *watchBody) Read(p []byte) (int, error) {
	b.since.Store(max(1, int64(time.Since(b.made))))
	defer b.since.Store(0)
	return b.ReadCloser.Read(p)
}

func (b *watchBody) waited() time.Duration {
	since := b.since.Load()
	if since == 0 {
		return 0
	}
	return time.Since(b.made) - time.Duration(since)
}

// event decodes a frame. The object may precede its type.
func (s *stream) event(frame []byte) (ev watch.Event, err error) {
	var kind string
	var raw []byte
	var o *entry
	in := &s.scan
	in.Reset(frame)
	if err := in.OpenObject(); err != nil {
		return ev, err
	}
	for first := true; ; first = false {
		key, more, err := in.NextKey(first)
		if err != nil {
			return ev, err
		}
		if !more {
			break
		}
		if !in.Plain() {
			key = []byte(`"` + scan.Unquote(key) + `"`)
		}
		switch string(key) {
		case `"type"`:
			quoted, err := in.String()
			if err != nil {
				return ev, err
			}
			kind = scan.Unquote(quoted)
		case `"object"`:
			if _, err := in.Kind(); err != nil { // skips space before the object
				return ev, err
			}
			start := in.Pos()
			if o, err = s.reader.entry(in); err != nil {
				return ev, err
			}
			raw = frame[start:in.Pos()]
		default:
			if _, err := in.Skip(); err != nil {
				return ev, err
			}
		}
	}
	if err := in.End(); err != nil {
		return ev, err
	}
	if o == nil {
		return ev, errors.New("it has no object")
	}
	ev.Type = watch.EventType(kind)
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		s.reader.refuse(o)
		ev.Object = o
	case watch.Bookmark:
		ev.Object, err = bookmark(raw)
	case watch.Error:
		ev.Object = statusOf(raw)
	default:
		err = fmt.Errorf("its type is %.64q", kind)
	}
	return ev, err
}

// statusOf returns the Status in an ERROR event.
func statusOf(raw []byte) *metav1.Status {
	status := new(metav1.Status)
	if err := json.Unmarshal(raw, status); err != nil || status.Kind != "Status" {
		return &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Reason:  metav1.StatusReasonInternalError,
			Message: "the server sent an error that is not a Status",
		}
	}
	return status
}

// bookmark decodes the object of a BOOKMARK event. The object may have no name: the reflector reads
// only its resourceVersion and annotations.
func bookmark(raw []byte) (*entry, error) {
	o, err := object.FromJSON(raw)
	if err != nil {
		return nil, err
	}
	return &entry{Object: o}, nil
}
