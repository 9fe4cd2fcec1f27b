package output

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Lines come out the same however the bytes arrive.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	input := "one\r\n\n  \n" + long + "\n" + long + "yyy\nthree\n" + long + long + long + "\nlast"
	want := []string{"one", long, long + " cut", "three", long + " cut", "last"}
	for _, size := range []int{1, 2, 7, maxLine - 1, maxLine, maxLine + 1, len(input)} {
		var got []string
		l := &lines{emit: func(line []byte, cut bool) {
			text := string(line)
			if cut {
				text += " cut"
			}
			got = append(got, text)
		}}
		for rest := input; rest != ""; {
			n := min(size, len(rest))
			_, _ = l.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		l.end()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d bytes at a time: %s", size, diff)
		}
	}
}

// A process that writes too much is slowed down, whatever it writes on which stream. One that
// writes a burst now and then is not.
func TestPace(t *testing.T) {
	line := strings.Repeat("x", 63) + "\n"
	for name, text := range map[string]string{
		"lines": strings.Repeat(line, 1<<10), "no line": strings.Repeat("x", 64<<10), "empty lines": strings.Repeat("\n", 64<<10),
	} {
		synctest.Test(t, func(t *testing.T) {
			l := New(slog.New(slog.NewTextHandler(io.Discard, nil)), 2, 1)
			streams := []*lines{l.stderr, l.stdout, l.syncStdout, l.syncStderr}
			write := func(total int) time.Duration {
				began := time.Now()
				for i := 0; total > 0; i++ {
					n, _ := streams[i%len(streams)].Write([]byte(text))
					total -= n
				}
				return time.Since(began)
			}
			if took := write(paceBurst); took != 0 {
				t.Errorf("%s: the burst took %v", name, took)
			}
			if took := write(10 * paceRate); took < 9*time.Second || took > 11*time.Second {
				t.Errorf("%s: what takes ten seconds took %v", name, took)
			}
			time.Sleep(time.Minute)
			if took := write(paceBurst); took != 0 {
				t.Errorf("%s: the burst took %v again", name, took)
			}
		})
	}
}

// The last lines of a process are kept. Of a runtime's last words it is the beginning: they end in
// stacks and registers.
func TestLastWords(t *testing.T) {
	numbered := func(format string, from, to int) (lines []string) {
		for i := from; i <= to; i++ {
			lines = append(lines, fmt.Sprintf(format, i))
		}
		return lines
	}
	for _, c := range []struct {
		why         string
		write, want []string
		last        string
	}{
		{"nothing", nil, nil, ""},
		{"the last ten", numbered("line %d", 1, 12), numbered("line %d", 3, 12), "line 12"},
		{"with what it is about", []string{`{"level":"ERROR","msg":"cannot open","err":"no such file","n":3}`}, []string{"cannot open err=no such file n=3"}, "cannot open err=no such file n=3"},
		{"a panic and its head", append([]string{"before", "panic: boom"}, numbered("frame %d", 1, 30)...),
			append([]string{"panic: boom"}, numbered("frame %d", 1, 9)...), "panic: boom"},
		{"a signal", append([]string{"runtime/cgo: pthread_create failed: Resource temporarily unavailable", "SIGABRT: abort", "PC=0x1"}, numbered("r%d 0x0", 1, 30)...),
			append([]string{"runtime/cgo: pthread_create failed: Resource temporarily unavailable", "SIGABRT: abort", "PC=0x1"}, numbered("r%d 0x0", 1, 7)...),
			"runtime/cgo: pthread_create failed: Resource temporarily unavailable"},
		{"a panic, after lines about events", []string{`{"msg":"ready"}`, `{"msg":"counted","id":"a"}`, "panic: boom"}, []string{"ready", "panic: boom"}, "panic: boom"},
		{"only what is about the last event", []string{`{"msg":"begun","id":"b"}`, `{"msg":"counted","id":"a"}`, `{"msg":"failed","id":"b"}`},
			[]string{"begun id=b", "failed id=b"}, "failed id=b"},
		{"an error of Node.js, before its version", slices.Concat([]string{"node:internal", "  throw err;", "Error: Cannot find module 'x'"}, numbered("    at f%d", 1, 12), []string{"  code: 'X'", "}", "", "Node.js v20.1.0"}),
			[]string{"Error: Cannot find module 'x'"}, "Error: Cannot find module 'x'"},
		{"an error with a code", []string{"TypeError [ERR_X]: boom", "Node.js v20.1.0"}, []string{"TypeError [ERR_X]: boom"}, "TypeError [ERR_X]: boom"},
		{"no error of Node.js", []string{"Node.js v20.1.0"}, []string{"Node.js v20.1.0"}, "Node.js v20.1.0"},
		{"another panic, after one that was survived", slices.Concat([]string{"panic: first"}, numbered("frame %d", 1, 30), []string{"panic: second", "frame"}),
			append(numbered("frame %d", 2, 9), "panic: second", "frame"), "panic: second"},
	} {
		l := New(slog.New(slog.DiscardHandler), 2, 1)
		_, _ = io.WriteString(l.stderr, strings.Join(append(c.write, ""), "\n"))
		if diff := cmp.Diff(c.want, l.LastLines()); diff != "" || l.LastError() != c.last {
			t.Errorf("%s: the last is %q: %s", c.why, l.LastError(), diff)
		}
	}
}

// A process may print a line that looks like a runtime's last words, and live on. What follows is
// then no error, and that line is not what is shown when the process ends.
func TestPanicThatWasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := New(slog.New(slog.NewTextHandler(&log, nil)), 100, 1)
		_, _ = io.WriteString(l.stderr, "runtime: 12ms\n")
		time.Sleep(2 * time.Second)
		_, _ = io.WriteString(l.stderr, "next\nlast\n")
		if !strings.Contains(log.String(), "level=INFO msg=next") {
			t.Errorf("the line that follows is an error:\n%s", log.String())
		}
		if l.LastError() != "last" {
			t.Errorf("the last words are %q", l.LastError())
		}
	})
}

// A structured line becomes one line of the log, of bounded length, and forges none of the daemon's
// attributes.
func TestStructuredLines(t *testing.T) {
	many := `{"msg":"many"`
	for i := range 2 * maxAttrs {
		many += fmt.Sprintf(`,"k%d":%d`, i, i)
	}
	long := strings.Repeat("k", 1000)
	for _, c := range []struct {
		why, line, message string
		attrs              []string
	}{
		{"line breaks and escapes in the message", `{"msg":"one\nERROR two\r\u001b[2J\u2028three\u202e"}`, "one ERROR two  [2J three", nil},
		{"in a value", `{"msg":"m","v":"one\n\u001b[2Jtwo"}`, "m", []string{"v=one\n[2Jtwo"}},
		{"in a value that is not flat", `{"msg":"m","v":["one\u202etwo"]}`, "m", []string{`v=["one two"]`}},
		{"in a key", `{"msg":"m","one\n\u001btwo":1}`, "m", []string{"one  two=1"}},
		{"a key that becomes the daemon's when it is tidied", `{"msg":"m","\nhandler":"spoof"}`, "m", []string{"_handler=spoof"}},
		{"a long key", `{"msg":"m","` + long + `":1}`, "m", []string{long[:100] + "…=1"}},
		{"the daemon's keys", `{"msg":"m","via":1,"source":2,"pid":3,"msg":4}`, "m", []string{"_via=1", "_source=2", "_pid=3", "_msg=4"}},
	} {
		r, ok := parseJSONLine([]byte(c.line))
		var attrs []string
		for _, a := range r.attrs {
			attrs = append(attrs, a.String())
		}
		if diff := cmp.Diff(c.attrs, attrs); diff != "" || !ok || r.message != c.message {
			t.Errorf("%s: %v, %q: %s", c.why, ok, r.message, diff)
		}
	}
	if r, ok := parseJSONLine([]byte(many + "}")); !ok || len(r.attrs) != maxAttrs {
		t.Errorf("%v, %d attributes of a line with many", ok, len(r.attrs))
	}
}

func TestValve(t *testing.T) {
	var got []string
	synctest.Test(t, func(t *testing.T) {
		v := newValve(3, 2)
		began := time.Now()
		for _, at := range []float64{0, 0, 0, 0, 0, 0.5, 0.5, 1, 100, 100, 100, 100} {
			time.Sleep(time.Until(began.Add(time.Duration(at * float64(time.Second)))))
			ok, missed := v.pass()
			got = append(got, fmt.Sprint(at, ok, missed))
		}
		if v.rest() != 1 || v.rest() != 0 {
			t.Error("the rest is told once")
		}
	})
	want := []string{
		"0 true 0", "0 true 0", "0 true 0", "0 false 0", "0 false 0", // the burst
		"0.5 true 2", "0.5 false 0", // one more after half a second
		"1 true 0",                                              // and another, but it is too soon to tell again
		"100 true 1", "100 true 0", "100 true 0", "100 false 0", // the burst again, not what an hour would give
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Any bytes on standard error become lines that are fit for a log.
func FuzzLogLine(f *testing.F) {
	f.Add([]byte(`{"@message":5}`))
	f.Add([]byte(`{"@level":"warn","@message":"x","a":{"b":[1,2.5e400]},"@timestamp":null}`))
	f.Add([]byte(`{"":"","level":"ERROR","msg":"\u0000\ud800"}{`))
	f.Add([]byte("[ERROR] \xff\x1b[0m"))
	f.Add([]byte("[] panic: "))
	f.Fuzz(func(t *testing.T, line []byte) {
		var out bytes.Buffer
		l := New(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), 100, 100)
		_, _ = l.stderr.Write(line)
		l.End()
		l.stderr.end()
		if bytes.Count(out.Bytes(), []byte("\n")) > bytes.Count(line, []byte("\n"))+1 {
			t.Errorf("more lines than came: %q", out.Bytes())
		}
		if r, ok := parseJSONLine(line); ok && (strings.ContainsAny(r.message, "\n\x1b") || !utf8.ValidString(r.message)) {
			t.Errorf("%q", r.message)
		}
		if last := l.LastError(); strings.ContainsAny(last, "\n\x1b") || !utf8.ValidString(last) {
			t.Errorf("%q", last)
		}
	})
}

// Text that may quote a Secret is counted. What the handler logs is shown.
func TestHide(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&text, nil)), 100, 100)
	hides := true
	write := func(s string) {
		for _, stream := range []*lines{l.stderr, l.stdout, l.syncStdout, l.syncStderr} {
			_, _ = io.WriteString(stream, s)
		}
	}
	write("before it sees anything\n")
	l.Hide(func() bool { return hides })
	write("panic: cannot parse hunter2\n")
	write(`{"@level":"info","@message":"parsed","n":1}` + "\n")
	write(`{"level":"INFO","msg":"command output","stream":"stdout","line":"hunter2"}` + "\n")
	hides = false
	write(`{"level":"INFO","msg":"command output","stream":"stdout","line":"of no Secret"}` + "\n")
	write("it sees no Secrets any more\n")
	l.End()
	for what, n := range map[string]int{
		"before it sees": 4, "hunter2": 0, "msg=parsed": 4, "any more": 4, "of no Secret": 4,
		"handler writes text that is not shown": 1, "handler wrote text that is not shown, as it may quote a Secret\" lines=8": 1,
	} {
		if got := strings.Count(text.String(), what); got != n {
			t.Errorf("%d times %q, want %d:\n%s", got, what, n, text.String())
		}
	}
}
