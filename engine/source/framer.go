package source

import (
	"bytes"
	"errors"
	"io"
)

const (
	frameBuffer = 32 << 10 // bytes; the buffer grows for a larger frame, and shrinks afterwards
	maxFrame    = 16 << 20 // bytes; by default etcd accepts 1.5 MiB
)

var (
	errNoFrame     = errors.New("the server sent something that is not a watch event")
	errFrameTooBig = errors.New("the server sent a watch event of more than 16 MiB")
)

// frameReader cuts a watch's body into frames, each a JSON object. It finds where frames end, and
// checks nothing else.
//
// API servers send each frame as one line, and JSON has no line break within a string. So after one
// frame that was a whole line by itself, the reader only looks for line breaks. Until then it
// counts brackets. It counts them forever if a proxy formats its JSON in another way.
type frameReader struct {
	body io.Reader
	err  error // the error that ended body

	buf   []byte // bytes read from body
	start int    // start of the current frame in buf
	seen  int    // how far the reader has searched for the frame's end
	fresh bool   // the current frame begins the body or a line
	lines bool   // each frame is a line

	depth             int // of brackets at seen
	inString, escaped bool
}

func newFrameReader(body io.Reader) frameReader {
	return frameReader{body: body, buf: make([]byte, 0, frameBuffer), fresh: true}
}

// next waits for a frame, and returns it. It is valid until the next call. The error is io.EOF if
// the body ends between two frames, and io.ErrUnexpectedEOF if it ends within one.
func (r *frameReader) next() ([]byte, error) {
	for {
		r.skipSpace()
		if r.start < len(r.buf) && r.buf[r.start] != '{' {
			return nil, errNoFrame
		}
		if end := r.end(); end > 0 {
			frame := r.buf[r.start:end]
			endsLine := end < len(r.buf) && r.buf[end] == '\n'
			if r.fresh && endsLine && bytes.IndexByte(frame, '\n') < 0 {
				r.lines = true
			}
			r.start, r.seen, r.fresh = end, end, false
			return frame, nil
		}
		if r.err != nil {
			return nil, r.ended()
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// hasLine reports whether the buffer holds a whole line, which next would return without waiting. It
// is false while a frame may be more than a line.
func (r *frameReader) hasLine() bool {
	if r.skipSpace(); !r.lines {
		return false
	}
	return bytes.IndexByte(r.buf[r.seen:], '\n') >= 0
}

// ended returns the error for the end of the body.
func (r *frameReader) ended() error {
	switch {
	case r.err != io.EOF:
		return r.err
	case r.start == len(r.buf):
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

func (r *frameReader) skipSpace() {
	for r.start < len(r.buf) {
		switch r.buf[r.start] {
		case '\n':
			r.fresh = true
			fallthrough
		case ' ', '\t', '\r':
			r.start++
			r.seen = max(r.seen, r.start)
			continue
		}
		return
	}
}

// end returns the end of the current frame in buf, or 0 if the frame is not complete yet.
func (r *frameReader) end() int {
	if r.lines {
		if n := bytes.IndexByte(r.buf[r.seen:], '\n'); n >= 0 {
			return r.seen + n
		}
		r.seen = len(r.buf)
		if r.err == nil {
			return 0
		}
		r.lines, r.seen = false, r.start // the last frame may have no line break
	}
	for i := r.seen; i < len(r.buf); i++ {
		c := r.buf[i]
		switch {
		case r.escaped:
			r.escaped = false
		case r.inString:
			r.escaped, r.inString = c == '\\', c != '"'
		case c == '"':
			r.inString = true
		case c == '{' || c == '[':
			r.depth++
		case c == '}' || c == ']':
			if r.depth--; r.depth == 0 {
				return i + 1
			}
		}
	}
	r.seen = len(r.buf)
	return 0
}

// fill reads more of the body into the buffer.
func (r *frameReader) fill() error {
	switch {
	case r.start == len(r.buf) && cap(r.buf) > 16*frameBuffer:
		r.buf, r.start, r.seen = make([]byte, 0, frameBuffer), 0, 0
	case r.start == len(r.buf), len(r.buf) == cap(r.buf) && r.start > 0:
		r.seen -= r.start
		r.buf = r.buf[:copy(r.buf, r.buf[r.start:])]
		r.start = 0
	case len(r.buf) >= maxFrame:
		return errFrameTooBig
	case len(r.buf) == cap(r.buf):
		r.buf = append(make([]byte, 0, 2*cap(r.buf)), r.buf...)
	}
	n, err := r.body.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf, r.err = r.buf[:len(r.buf)+n], err
	return nil
}
