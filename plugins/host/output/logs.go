// Package output turns what a handler process writes into lines of the daemon's log.
//
// Every line keeps its level, and passes at a bounded rate with a bounded size. Nothing in it is
// trusted: a line cannot forge the daemon's own, crash the daemon or fill its log, and a process
// that floods its output is slowed down. The last lines on standard error are kept for the error
// that says why the process failed.
//
// go-plugin's own parser of such lines is never used: one line can make it panic.
package output

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/internal/printable"
)

// Log receives the output of one process. All methods may be called concurrently.
type Log struct {
	log    *slog.Logger // has the attribute handler
	valve  *valve
	pace   *pace
	hides  atomic.Pointer[func() bool] // see Hide; nil: nothing is hidden
	hidden atomic.Int64                // lines
	stderr *lines                      // standard error
	stdout *lines                      // standard output, after the handshake
	// The process's streams as go-plugin's GRPCStdio service forwards them, beside the two.
	syncStdout *lines
	syncStderr *lines

	mu       sync.Mutex // guards the fields below
	panicked bool       // the lines that follow belong to a stack trace
	last     []byte     // the last line on standard error, or the first of a stack trace
	lines    [][]byte   // the last lines on standard error, at most maxLastLines
	dying    int        // lines of a runtime's last words so far
	spoke    time.Time  // when the last of these lines came
	thrown   []byte     // the last line that names an error: Node.js ends with its own version
}

// maxLastLines is how many lines of a process that failed are kept.
const maxLastLines = 10

// lastBreath is how long the lines of a runtime's last words are apart, at most. A process that
// writes more after a longer pause is alive: it had printed a line that looks like a panic.
const lastBreath = time.Second

// lives forgets a panic after which the process went on. l.mu is held.
func (l *Log) lives(now time.Time) {
	if now.Sub(l.spoke) > lastBreath {
		l.panicked, l.dying = false, 0
	}
	l.spoke = now
}

// isError reports whether a line of text names an error, as in "TypeError: x is not a function".
func isError(line []byte) bool {
	name, _, found := bytes.Cut(line[:min(len(line), 64)], []byte(": "))
	name, _, _ = bytes.Cut(name, []byte(" [")) // the code that Node.js gives some
	return found && bytes.HasSuffix(name, []byte("Error")) && !bytes.ContainsAny(name, " \t{")
}

// New returns a Log that writes to log: burst lines at once, perSecond after that. More lines are
// dropped and counted.
func New(log *slog.Logger, burst, perSecond int) *Log {
	l := &Log{log: log, valve: newValve(burst, perSecond), pace: newPace()}
	stdout, stderr := l.emitTo(log.With(ViaKey, "stdout")), l.emitTo(log.With(ViaKey, "stderr"))
	l.stderr = &lines{pace: l.pace, emit: func(line []byte, cut bool) {
		stderr(line, cut)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.remember(bytes.Clone(line))
	}}
	l.stdout = &lines{pace: l.pace, emit: stdout}
	l.syncStdout = &lines{pace: l.pace, emit: stdout}
	l.syncStderr = &lines{pace: l.pace, emit: stderr}
	return l
}

// Hide leaves plain text out of the log from now on, while may returns true, because it may quote a
// Secret: a panic, a stack trace, the output of a program. That includes structured lines in which
// the exec builtin passes on what its command writes. Other structured lines have what the handler
// means to log. may is called from any goroutine.
func (l *Log) Hide(may func() bool) { l.hides.Store(&may) }

// ReadStderr logs standard error until its end.
func (l *Log) ReadStderr(f *os.File) { l.stderr.readAll(f) }

// ReadStdout logs standard output until its end: first what was read of it already, then the pipe.
func (l *Log) ReadStdout(read []byte, f *os.File) {
	_, _ = l.stdout.Write(read)
	l.stdout.readAll(f)
}

// SyncStdout returns the writer for standard output as go-plugin forwards it.
func (l *Log) SyncStdout() io.Writer { return l.syncStdout }

// SyncStderr returns the writer for standard error as go-plugin forwards it.
func (l *Log) SyncStderr() io.Writer { return l.syncStderr }

// remember keeps a line as one of the last. Of a runtime's last words it keeps the beginning: what
// follows are stacks and registers. Lines are put into words only when LastLines is called, so a
// flood costs little. l.mu is held.
func (l *Log) remember(line []byte) {
	l.lives(time.Now())
	switch {
	case l.dying > 0 && l.dying <= maxLastLines:
		l.dying++
	case isPanic(string(line[:min(len(line), 32)])):
		l.last, l.dying = line, 1
	case l.thrown != nil && bytes.HasPrefix(line, []byte("Node.js v")):
		l.last, l.lines, l.thrown = l.thrown, [][]byte{l.thrown}, nil
		return
	case l.dying == 0:
		l.last = line
		if isError(line) {
			l.thrown = line
		}
	default:
		return
	}
	if l.dying > maxLastLines {
		return
	}
	if len(l.lines) == maxLastLines {
		l.lines = slices.Delete(l.lines, 0, 1)
	}
	l.lines = append(l.lines, line)
}

// lastWords returns what a line says, short enough for an error: the message and attributes of a
// structured line.
func lastWords(line []byte) string {
	const most = 200
	r, ok := parseJSONLine(line)
	if !ok {
		return printable.Line(string(line), most)
	}
	words := r.message
	for _, a := range r.attrs {
		words += " " + a.String()
	}
	return printable.Line(words, most)
}

// LastError returns the last line on standard error, or the first line of a panic: often the reason
// why a process ended. It is at most 200 bytes.
func (l *Log) LastError() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lastWords(l.last)
}

// LastLines returns the last lines on standard error, oldest first: at most 10 of 200 bytes each.
// It leaves out lines about other events than the one that the last line is about, if any.
func (l *Log) LastLines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	var last string
	for i, line := range slices.Backward(l.lines) {
		id := eventOf(line)
		if i == len(l.lines)-1 {
			last = id
		}
		if id == "" || id == last {
			words = append(words, lastWords(line))
		}
	}
	slices.Reverse(words)
	return words
}

// eventOf returns the id of the event that a structured line is about, or "".
func eventOf(line []byte) string {
	r, _ := parseJSONLine(line)
	for _, a := range r.attrs {
		if a.Key == "id" {
			return a.Value.String()
		}
	}
	return ""
}

// Hurry stops slowing down the process, because it is to end. It is called once.
func (l *Log) Hurry() { close(l.pace.over) }

// End logs what is left, once the process is gone: last lines without a line break, and the number
// of dropped ones.
func (l *Log) End() {
	l.syncStdout.end()
	l.syncStderr.end()
	l.reportMissed(l.valve.rest())
	if n := l.hidden.Load(); n > 1 {
		l.log.Warn("handler wrote text that is not shown, as it may quote a Secret", "lines", n)
	}
}

func (l *Log) reportMissed(n int) {
	if n > 0 {
		l.log.Warn("handler log lines dropped", "lines", n)
	}
}

// ViaKey is the attribute that marks a line as the handler's own, as opposed to the daemon's about
// the handler. It names the stream that the line came on. No handler can set it or leave it out.
const ViaKey = "via"

// relayed is the message of the structured lines in which the exec builtin passes on what its
// command writes.
const relayed = "command output"

// emitTo returns a function that logs one line to log.
func (l *Log) emitTo(log *slog.Logger) func(line []byte, cut bool) {
	return func(line []byte, cut bool) { l.emit(log, line, cut) }
}

func (l *Log) emit(log *slog.Logger, line []byte, cut bool) {
	if l.valve.isFull() { // in a flood, lines are not even parsed
		return
	}
	r, ok := parseJSONLine(line)
	if !ok || r.message == relayed {
		if may := l.hides.Load(); may != nil && (*may)() {
			if l.hidden.Add(1) == 1 {
				l.log.Warn("handler writes text that is not shown, as it may quote a Secret; log lines in JSON are shown")
			}
			return
		}
	}
	if !ok {
		r = l.plain(string(line))
	}
	if !log.Enabled(context.Background(), r.level) {
		return
	}
	ok, missed := l.valve.pass()
	if !ok {
		return
	}
	l.reportMissed(missed)
	if cut {
		r.attrs = append(r.attrs, slog.Bool("cut", true))
	}
	log.LogAttrs(context.Background(), r.level, r.message, r.attrs...)
}

// entry is a parsed line.
type entry struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// plain parses a line that is not JSON. All lines of a runtime's last words are errors.
func (l *Log) plain(line string) entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lives(time.Now())
	l.panicked = l.panicked || isPanic(line)
	r := entry{level: slog.LevelInfo, message: printable.Line(line, maxLine)}
	if l.panicked {
		r.level = slog.LevelError
		return r
	}
	prefix, rest, found := strings.Cut(strings.TrimPrefix(r.message, "["), "]")
	if found && r.message[0] == '[' {
		if level, ok := parseLevel(prefix); ok {
			r.level, r.message = level, strings.TrimSpace(rest)
		}
	}
	return r
}

// isPanic reports whether the Go runtime begins its last words with this line.
func isPanic(line string) bool {
	for _, prefix := range []string{
		"panic: ", "fatal error: ", "runtime: ", "runtime/cgo: ",
		"SIGABRT: ", "SIGSEGV: ", "SIGBUS: ", "SIGFPE: ", "SIGILL: ", "SIGQUIT: ",
	} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// maxAttrs bounds the attributes of one line.
const maxAttrs = 32

// parseJSONLine parses one JSON object as hclog ("@level", "@message"), slog ("level", "msg") or
// zap ("level", "message") write it. Any bytes are legal input.
func parseJSONLine(line []byte) (entry, bool) {
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
		return entry{}, false
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return entry{}, false
	}
	r := entry{level: slog.LevelInfo}
	leveled, messaged := false, false
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return entry{}, false
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return entry{}, false
		}
		text, isText := value.(string)
		switch key {
		case "@level", "level":
			if level, ok := parseLevel(text); ok && !leveled {
				r.level, leveled = level, true
				continue
			}
		case "@message", "msg", "message":
			if isText && !messaged {
				r.message, messaged = printable.Line(text, maxLine), true
				continue
			}
		case "@timestamp", "time", "timestamp", "ts":
			continue // the daemon's log has its own
		}
		if len(r.attrs) < maxAttrs {
			r.attrs = append(r.attrs, attr(key, value))
		}
	}
	if _, err := d.Token(); err != nil || d.More() {
		return entry{}, false
	}
	return r, messaged || leveled
}

// attr returns an attribute of the handler's line. Keys that the daemon itself uses get a prefix.
func attr(key string, value any) slog.Attr {
	key = printable.Line(key, 100)
	switch key {
	case "handler", ViaKey, "level", "time", "msg", "source", "pid", "":
		key = "_" + key
	}
	switch v := value.(type) {
	case string:
		return slog.String(key, printable.Lines(v, maxLine))
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return slog.Int64(key, n)
		}
		return slog.String(key, printable.Line(v.String(), 100))
	case bool:
		return slog.Bool(key, v)
	case nil:
		return slog.Any(key, nil)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("unprintable")
		}
		return slog.String(key, printable.Line(string(text), maxLine))
	}
}

// parseLevel parses the level names of hclog, slog, zap, logrus and Python.
func parseLevel(s string) (slog.Level, bool) {
	switch strings.ToLower(s) {
	case "trace", "debug":
		return slog.LevelDebug, true
	case "info", "notice":
		return slog.LevelInfo, true
	case "warn", "warning":
		return slog.LevelWarn, true
	case "error", "err", "critical", "fatal", "panic", "dpanic":
		return slog.LevelError, true
	}
	return 0, false
}
