package host

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// logs brings what one process writes into the daemon's log: each line with its level, at a bounded rate. Nothing of
// it is trusted; go-plugin's own parser of these lines can be made to panic and is never used.
type logs struct {
	log    *slog.Logger // has the attribute handler
	bucket *bucket
	pace   *pace
	stderr *lines // the process's standard error
	stdout *lines // its standard output, after the handshake
	// What comes through go-plugin's own service, beside the two.
	syncStdout *lines
	syncStderr *lines

	mu    sync.Mutex
	panic bool     // the lines that follow belong to a stack trace
	last  []byte   // the last line on standard error, or the first of a stack trace
	lines [][]byte // the last lines on standard error, at most maxLastLines
	dying int      // lines of a runtime's last words so far
}

// maxLastLines is how many lines of a process that failed are kept.
const maxLastLines = 10

func newLogs(log *slog.Logger, burst, rate int) *logs {
	l := &logs{log: log, bucket: newBucket(burst, rate)}
	stdout, stderr := l.emitTo(log.With(viaKey, "stdout")), l.emitTo(log.With(viaKey, "stderr"))
	l.pace = &pace{over: make(chan struct{})}
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

// remember keeps the last words. Of what a runtime says at its end the beginning matters: what follows is stacks and
// registers. They are put into words when they are asked for: in a flood nobody does. l.mu is held.
func (l *logs) remember(line []byte) {
	switch {
	case l.dying > 0 && l.dying <= maxLastLines:
		l.dying++
	case isPanic(string(line[:min(len(line), 32)])):
		l.last, l.dying = line, 1
	case l.dying == 0:
		l.last = line
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

// lastWords is what a line says, short enough for a message: of a structured one its message and attributes.
func lastWords(line []byte) string {
	const most = 200
	r, ok := parseJSONLine(line)
	if !ok {
		return printable(string(line), most)
	}
	words := r.message
	for _, a := range r.attrs {
		words += " " + a.String()
	}
	return printable(words, most)
}

// lastError is the last line on standard error, a panic's first: often the reason why a process went away.
func (l *logs) lastError() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lastWords(l.last)
}

// lastLines are the last lines on standard error, the oldest first.
func (l *logs) lastLines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	for _, line := range l.lines {
		words = append(words, lastWords(line))
	}
	return words
}

// hurry has what the process still writes read at once, for it is to end.
func (l *logs) hurry() { close(l.pace.over) }

// end tells of lines that did not pass. The process is gone.
func (l *logs) end() {
	l.syncStdout.end()
	l.syncStderr.end()
	l.tellMissed(l.bucket.rest())
}

func (l *logs) tellMissed(n int) {
	if n > 0 {
		l.log.Warn("handler log lines dropped", "lines", n)
	}
}

// viaKey is the attribute that tells a handler's line from one of the daemon's own about the handler: it says on which
// stream the line came, and no handler can set or leave it out.
const viaKey = "via"

// emitTo returns what logs one line.
func (l *logs) emitTo(log *slog.Logger) func(line []byte, cut bool) {
	return func(line []byte, cut bool) { l.emit(log, line, cut) }
}

func (l *logs) emit(log *slog.Logger, line []byte, cut bool) {
	if l.bucket.full(time.Now()) { // in a flood, nothing is made of lines
		return
	}
	r, ok := parseJSONLine(line)
	if !ok {
		r = l.plain(string(line))
	}
	if !log.Enabled(context.Background(), r.level) {
		return
	}
	ok, missed := l.bucket.take(time.Now())
	if !ok {
		return
	}
	l.tellMissed(missed)
	if cut {
		r.attrs = append(r.attrs, slog.Bool("cut", true))
	}
	log.LogAttrs(context.Background(), r.level, r.message, r.attrs...)
}

// record is what a line says.
type record struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// plain reads a line that is not JSON. A runtime's last words are errors, to their end.
func (l *logs) plain(line string) record {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.panic = l.panic || isPanic(line)
	r := record{level: slog.LevelInfo, message: printable(line, maxLine)}
	if l.panic {
		r.level = slog.LevelError
		return r
	}
	if prefix, rest, found := strings.Cut(strings.TrimPrefix(r.message, "["), "]"); found && r.message[0] == '[' {
		if level, ok := parseLevel(prefix); ok {
			r.level, r.message = level, strings.TrimSpace(rest)
		}
	}
	return r
}

// isPanic tells a line with which the Go runtime begins its last words.
func isPanic(line string) bool {
	for _, prefix := range []string{"panic: ", "fatal error: ", "runtime: ", "runtime/cgo: ", "SIGABRT: ", "SIGSEGV: ", "SIGBUS: ", "SIGFPE: ", "SIGILL: ", "SIGQUIT: "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// maxAttrs bounds the attributes of one line.
const maxAttrs = 32

// parseJSONLine reads one JSON object in the manner of hclog ("@level", "@message"), slog ("level", "msg") or zap
// ("level", "message", …). It takes any bytes.
func parseJSONLine(line []byte) (record, bool) {
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
		return record{}, false
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return record{}, false
	}
	r := record{level: slog.LevelInfo}
	leveled, messaged := false, false
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return record{}, false
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return record{}, false
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
				r.message, messaged = printable(text, maxLine), true
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
		return record{}, false
	}
	return r, messaged || leveled
}

// attr keeps what the handler says apart from what the daemon says of it.
func attr(key string, value any) slog.Attr {
	key = printable(key, 100)
	switch key {
	case "handler", viaKey, "level", "time", "msg", "source", "pid", "":
		key = "_" + key
	}
	switch v := value.(type) {
	case string:
		return slog.String(key, printable(v, maxLine))
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return slog.Int64(key, n)
		}
		return slog.String(key, printable(v.String(), 100))
	case bool:
		return slog.Bool(key, v)
	case nil:
		return slog.Any(key, nil)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("unprintable")
		}
		return slog.String(key, printable(string(text), maxLine))
	}
}

// parseLevel knows the names that hclog, slog, zap, logrus and Python use.
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
