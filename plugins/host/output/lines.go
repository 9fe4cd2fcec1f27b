package output

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
)

// maxLine bounds the bytes of a line that are kept. The rest of the line is skipped.
const maxLine = 8 << 10

// lines cuts a stream of bytes into lines of bounded length and emits each. It buffers at most one
// line.
type lines struct {
	emit func(line []byte, cut bool) // line is valid during the call only
	pace *pace                       // slows Write down; nil: it does not

	mu   sync.Mutex // guards line and skip
	line []byte
	skip bool // the bytes up to the next line break belong to a line that was cut
}

// Write never fails. It blocks while the process writes faster than the pace allows.
func (l *lines) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, pieceSize) {
		l.write(piece)
		if l.pace != nil {
			l.pace.wait(len(piece))
		}
	}
	return len(p), nil
}

// pieceSize is how many bytes are processed at a time, however many arrive.
const pieceSize = 8 << 10

func (l *lines) write(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part, rest := p, []byte(nil)
		if i >= 0 {
			part, rest = p[:i], p[i+1:]
		}
		if !l.skip {
			room := maxLine - len(l.line)
			l.line = append(l.line, part[:min(room, len(part))]...)
			if len(part) > room {
				l.flush(true)
				l.skip = true
			}
		}
		if i >= 0 {
			if !l.skip {
				l.flush(false)
			}
			l.skip = false
		}
		p = rest
	}
}

// end emits a last line that has no line break.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush(false)
}

func (l *lines) flush(cut bool) {
	line := bytes.TrimRight(l.line, "\r")
	l.line = l.line[:0]
	if len(bytes.TrimSpace(line)) > 0 {
		l.emit(line, cut)
	}
}

// readAll reads a pipe to its end, or to the deadline that is set when the process ends.
func (l *lines) readAll(f *os.File) {
	defer l.end()
	buf := make([]byte, pieceSize)
	for {
		n, err := f.Read(buf)
		_, _ = l.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

var _ io.Writer = (*lines)(nil)
