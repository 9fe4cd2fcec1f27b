package host

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// maxLine is how much of a line is kept; the rest of it is skipped.
const maxLine = 8 << 10

// lines cuts a stream of bytes into lines of bounded length and hands each on. It holds one line at most.
type lines struct {
	emit func(line []byte, cut bool) // line is valid during the call
	pace *pace                       // nil: none

	mu   sync.Mutex
	line []byte
	skip bool // what comes until the next line break belongs to a line that was cut
}

// Write never fails: there is nobody who could do something about it. It takes its time if there is more than the pace
// allows.
func (l *lines) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, pieceSize) {
		l.write(piece)
		if l.pace != nil {
			l.pace.wait(l.pace.spend(len(piece), time.Now()))
		}
	}
	return len(p), nil
}

// pieceSize is how much is looked at at a time, however much comes.
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

// end hands on what has no line break after it.
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

// readAll reads a pipe to its end.
func (l *lines) readAll(f *os.File) {
	defer l.end()
	buf := make([]byte, pieceSize)
	for {
		n, err := f.Read(buf)
		_, _ = l.Write(buf[:n])
		if err != nil {
			return // its end, or the deadline that a process's end sets
		}
	}
}

var _ io.Writer = (*lines)(nil)

// The pace at which what a process writes is read: a burst, and so many bytes per second from then on. It is more than the
// lines that pass may measure; beyond it the process waits, instead of the daemon spending its time on it.
const (
	paceBurst = 256 << 10
	paceRate  = 2 << 20
)

// pace slows down a process that writes too much, on whatever stream.
type pace struct {
	over chan struct{} // closed when nobody needs to wait any more

	mu   sync.Mutex
	left float64 // bytes; below zero is owed
	at   time.Time
}

func (p *pace) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.over:
	}
}

// spend returns how long to wait now that n bytes were read.
func (p *pace) spend(n int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		p.left = paceBurst
	} else {
		p.left = min(paceBurst, p.left+paceRate*now.Sub(p.at).Seconds())
	}
	p.at = now
	p.left -= float64(n)
	return time.Duration(max(0, -p.left) / paceRate * float64(time.Second))
}

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

// full tells, and counts it, that a line cannot pass now, whatever it says.
func (b *bucket) full(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := !b.at.IsZero() && min(b.burst, b.tokens+b.rate*now.Sub(b.at).Seconds()) < 1
	if full {
		b.missed++
	}
	return full
}

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
