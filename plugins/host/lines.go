package host

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

// maxLine is how much of a line is kept; the rest of it is skipped.
const maxLine = 8 << 10

// lines cuts a stream of bytes into lines of bounded length and hands each on. It holds one line at most.
type lines struct {
	emit func(line []byte, cut bool) (passed bool) // line is valid during the call

	mu      sync.Mutex
	line    []byte
	skip    bool // what comes until the next line break belongs to a line that was cut
	dropped bool // emit let a line not pass
}

// floodPause slows down a process whose lines are all being dropped, instead of spending the daemon's time on it: at 64
// KiB a read it can still write 13 MB/s.
const floodPause = 5 * time.Millisecond

// Write never fails: there is nobody who could do something about it. It takes its time if none of the lines passes.
func (l *lines) Write(p []byte) (int, error) {
	if l.write(p) {
		time.Sleep(floodPause)
	}
	return len(p), nil
}

// write reports whether there were lines, and none passed.
func (l *lines) write(p []byte) (flooded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped = false
	passed := false
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
				passed = l.flush(true) || passed
				l.skip = true
			}
		}
		if i >= 0 {
			if !l.skip {
				passed = l.flush(false) || passed
			}
			l.skip = false
		}
		p = rest
	}
	return l.dropped && !passed
}

// end hands on what has no line break after it.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush(false)
}

func (l *lines) flush(cut bool) (passed bool) {
	line := bytes.TrimRight(l.line, "\r")
	l.line = l.line[:0]
	if len(bytes.TrimSpace(line)) == 0 {
		return true
	}
	if !l.emit(line, cut) {
		l.dropped = true
		return false
	}
	return true
}

// readAll reads a pipe to its end.
func (l *lines) readAll(f *os.File) {
	defer l.end()
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		_, _ = l.Write(buf[:n])
		if err != nil {
			return // its end, or the deadline that a process's end sets
		}
	}
}

var _ io.Writer = (*lines)(nil)

// bucket lets a burst of lines pass and then so many per second.
type bucket struct {
	burst, rate float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
	missed int
	told   time.Time // of lines that could not pass
}

func newBucket(burst, rate int) *bucket {
	return &bucket{burst: float64(burst), rate: float64(rate), tokens: float64(burst)}
}

// missedPause is the least time between two reports of lines that could not pass.
const missedPause = time.Second

// take reports whether a line may pass, and now and then, with one that may, how many could not before it.
func (b *bucket) take(now time.Time) (ok bool, missed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() {
		b.tokens = min(b.burst, b.tokens+b.rate*now.Sub(b.at).Seconds())
	}
	b.at = now
	if b.tokens < 1 {
		b.missed++
		return false, 0
	}
	b.tokens--
	if b.missed > 0 && now.Sub(b.told) >= missedPause {
		missed, b.missed, b.told = b.missed, 0, now
	}
	return true, missed
}

// rest returns how many lines did not pass and were not told of.
func (b *bucket) rest() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	missed := b.missed
	b.missed = 0
	return missed
}
