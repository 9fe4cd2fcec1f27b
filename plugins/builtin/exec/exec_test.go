package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/informd/informd/plugins/handler"
)

// asHandler names the environment variable that makes the test binary a process with one event in
// its hands: its value is the FIFO for the command to open.
const asHandler = "EXEC_TEST_FIFO"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if fifo := os.Getenv(asHandler); fifo != "" {
		h := New()
		if err := h.Configure(context.Background(), json.RawMessage(`{"command":["sh","-c","exec 9>$0; exec sleep 1000","`+fifo+`"]}`)); err != nil {
			panic(err)
		}
		_, err := h.Handle(context.Background(), event)
		panic(err) // it is killed before
	}
	goleak.VerifyTestMain(m)
}

var (
	_ handler.Handler       = (*Handler)(nil)
	_ handler.Describer     = (*Handler)(nil)
	_ handler.Configurer    = (*Handler)(nil)
	_ handler.HealthChecker = (*Handler)(nil)
	_ handler.Drainer       = (*Handler)(nil)
)

var event = handler.Event{
	ID: "all/u1/updated/7", Rule: "all", Event: handler.Updated, Attempt: 2,
	Resource:  handler.Resource{Version: "v1", Resource: "pods"},
	Namespace: "shop", Name: "web-0", UID: "u1", ResourceVersion: "7",
	Object: json.RawMessage(`{"html":"<a&b>","n":9007199254740993}`), Old: json.RawMessage(`{}`),
}

const eventJSON = `{"id":"all/u1/updated/7","rule":"all","event":"updated","attempt":2,` +
	`"resource":{"group":"","version":"v1","resource":"pods"},` +
	`"namespace":"shop","name":"web-0","uid":"u1","resourceVersion":"7",` +
	`"object":{"html":"<a&b>","n":9007199254740993},"old":{}}` + "\n"

func configured(t *testing.T, command ...string) *Handler {
	t.Helper()
	config, err := json.Marshal(map[string][]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	h := New()
	if err := h.Configure(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return h
}

// script is a handler that runs a shell script; $1 and so on are the arguments.
func script(t *testing.T, text string, arguments ...string) *Handler {
	t.Helper()
	return configured(t, append([]string{"sh", "-c", text, "sh"}, arguments...)...)
}

func TestEventOnStandardInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "event")
	if _, err := script(t, `cat > "$1"`, path).Handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(eventJSON, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A command gets a group of changes at once, each with all that an event of its own would have.
func TestItemsOnStandardInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input")
	older, newest := event, event
	older.ID, older.Name, older.Old, older.Event = "all/u0/added/6", "web-1", nil, handler.Added
	newest.Items = []handler.Event{older, event}
	if _, err := script(t, `cat > "$1"`, path).Handle(t.Context(), newest); err != nil {
		t.Fatal(err)
	}
	input, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got handler.Event
	if err := json.Unmarshal(input, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(newest, got); diff != "" {
		t.Error(diff)
	}
}

func TestExitStatusIsTheAnswer(t *testing.T) {
	const retry, reject = "retry", "reject"
	for _, test := range []struct{ script, want, reason string }{
		{"exit 0", "", ""},
		{"exit 1", retry, "command: exit status 1"},
		{"exit 63", retry, "command: exit status 63"},
		{"exit 64", reject, "rejected: command: exit status 64"},
		{"exit 75", reject, "rejected: command: exit status 75"},
		{"exit 78", reject, "rejected: command: exit status 78"},
		{"exit 79", retry, "command: exit status 79"},
		{"exit 255", retry, "command: exit status 255"},
		{"kill -KILL $$", retry, "command: signal: killed"},
		{"echo secret; echo secret >&2; exit 70", reject, "rejected: command: exit status 70"},
	} {
		_, err := script(t, test.script).Handle(t.Context(), event)
		got, reason := "", ""
		if err != nil {
			got, reason = retry, err.Error()
			if errors.Is(err, handler.ErrReject) {
				got = reject
			}
		}
		if got != test.want || reason != test.reason {
			t.Errorf("%s: got %q %q, want %q %q", test.script, got, reason, test.want, test.reason)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PASSED_ON", "yes")
	t.Setenv("INFORMD_STDOUT_FD", "3")
	t.Setenv("INFORMD_CACHE_SOCKET", "unix:/cache")
	t.Setenv("PLUGIN_CLIENT_CERT", "certificate")
	path := filepath.Join(t.TempDir(), "env")
	if _, err := script(t, `env > "$1"`, path).Handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if name == "PATH" {
			self, err := os.Executable()
			if want := os.Getenv("PATH") + ":" + filepath.Dir(self); err != nil || value != want {
				t.Errorf("PATH is %s, want %s; %v", value, want, err)
			}
		}
		if strings.HasPrefix(name, "INFORMD_") || strings.HasPrefix(name, "PLUGIN_") || name == "PASSED_ON" {
			got[name] = value
		}
	}
	want := map[string]string{
		"INFORMD_CACHE_SOCKET": "unix:/cache",
		"PASSED_ON":            "yes", "INFORMD_EVENT": "updated", "INFORMD_RULE": "all", "INFORMD_NAMESPACE": "shop", "INFORMD_NAME": "web-0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A command learns who leads, and where the event is in a trace. Its own TRACEPARENT gives way to the
// event's.
func TestEpochAndTrace(t *testing.T) {
	t.Setenv("TRACEPARENT", "the handler's")
	traced := event
	traced.Epoch, traced.Traceparent = handler.Epoch{Cluster: "6b1e", Generation: 1, Term: 7}, "00-a-b-01"
	path := filepath.Join(t.TempDir(), "out")
	h := script(t, `cat > /dev/null; echo "${INFORMD_EPOCH-none} $TRACEPARENT" >> "$1"`, path)
	for _, ev := range []handler.Event{event, traced} {
		if _, err := h.Handle(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if want := "none the handler's\n6b1e/1/7 00-a-b-01\n"; err != nil || string(got) != want {
		t.Errorf("got %s %v, want %s", got, err, want)
	}
}

// A shell has a PATH of its own as long as nobody gives it one.
func TestPathWithoutOne(t *testing.T) {
	t.Setenv("INFORMD_CACHE_SOCKET", "unix:/cache")
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	os.Unsetenv("PATH")
	h := configured(t, sh, "-c", "cat > /dev/null")
	if _, err := h.Handle(t.Context(), event); err != nil {
		t.Errorf("a script does not find cat: %v", err)
	}
}

func TestRelativeCommandInWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notify"), []byte("#!/bin/sh\nexit 66\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	h := configured(t, "./notify")
	t.Chdir("/") // found once, when configured
	if _, err := h.Handle(t.Context(), event); err == nil || err.Error() != "rejected: command: exit status 66" {
		t.Errorf("got %v, want the script's exit status", err)
	}
}

func TestDescriptorsAreKeptFromCommands(t *testing.T) {
	var pipe [2]int // inherited by children, unlike what os.Pipe makes
	if err := syscall.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	if _, err := script(t, `! [ -e "/dev/fd/$1" ]`, strconv.Itoa(pipe[1])).Handle(t.Context(), event); err != nil {
		t.Error(err)
	}
}

func TestInputNeedNotBeRead(t *testing.T) {
	big := event
	big.Object = json.RawMessage(`"` + strings.Repeat("x", 4<<20) + `"`)
	if _, err := script(t, "exit 0").Handle(t.Context(), big); err != nil {
		t.Error(err)
	}
}

// gone returns a FIFO for a script to open, a channel that is closed when it was opened, and one
// that is closed when every process that has it open is gone.
func gone(t *testing.T) (path string, opened, closed <-chan struct{}) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	open, end := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(end)
		r, err := os.Open(path)
		close(open)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		_, _ = io.Copy(io.Discard, r)
	}()
	return path, open, end
}

func TestProcessGroupIsKilled(t *testing.T) {
	for name, text := range map[string]string{
		"a grandchild without the command's output": `exec 9>"$1"; sleep 1000 >/dev/null 2>&1 & exit 0`,
		"a grandchild that holds the output open":   `exec 9>"$1"; sleep 1000 & exit 0`,
		"one that ignores SIGTERM":                  `exec 9>"$1"; trap "" TERM; sleep 1000 & exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo, _, closed := gone(t)
			if _, err := script(t, text, fifo).Handle(t.Context(), event); err != nil {
				t.Error(err)
			}
			<-closed
		})
	}
}

func TestCommandEndsAtItsTimeLimit(t *testing.T) {
	for name, text := range map[string]string{
		"at once":                      `exec 9>"$1"; sleep 1000`,
		"in an orderly way":            `trap "exit 65" TERM; exec 9>"$1"; sleep 1000`, // not the time to reject
		"killed, as it does not react": `trap "" TERM; exec 9>"$1"; sleep 1000 & sleep 1000; sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo, opened, closed := gone(t)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-opened
				cancel()
			}()
			_, err := script(t, text, fifo).Handle(ctx, event)
			if !errors.Is(err, context.Canceled) || errors.Is(err, handler.ErrReject) {
				t.Errorf("got %v, want a retry for the context's end", err)
			}
			<-closed
		})
	}
}

func TestCommandDiesWithTheHandler(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a process with its parent")
	}
	fifo, opened, closed := gone(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asHandler+"="+fifo)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-opened
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	<-closed
}

func TestCommandThatDisappeared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := configured(t, path)
	if err := h.Health(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Handle(t.Context(), event); !errors.Is(err, os.ErrNotExist) || errors.Is(err, handler.ErrReject) {
		t.Errorf("got %v, want a retry for the missing file", err)
	}
	if h.Health(t.Context()) == nil {
		t.Error("healthy without its command")
	}
}

func TestConfigRefused(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		``:                              "command: required",
		`{"command":[]}`:                "command: required",
		`{"command":"ls"}`:              "command: must be a list of strings, not a string",
		`{"comand":["ls"]}`:             `unknown field "comand", did you mean "command"?`,
		`{"command":[""]}`:              "command[0]: must not be empty",
		`{"command":["no-such-tool"]}`:  `command[0]: "no-such-tool" is not an executable in PATH`,
		`{"command":["./none"]}`:        `command[0]: "./none" does not exist`,
		`{"command":["./none --all"]}`:  "write each argument as an item of its own",
		`{"command":["ls -l"]}`:         "there is no shell",
		`{"command":["` + plain + `"]}`: "is not executable",
		`{"command":["` + dir + `"]}`:   "command[0]: ",
		`{"command":["ls\u0000","\u0000"]}`: "command[0]: holds a NUL character\n" +
			"command[1]: holds a NUL character",
		`{"command":["ls"` + strings.Repeat(`,"x"`, maxArguments) + `]}`: "has 257 items, at most 256 are allowed",
		`{"command":["ls","` + strings.Repeat("x", maxBytes) + `"]}`:     "65538 bytes long",
	} {
		err := New().Configure(t.Context(), json.RawMessage(config))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", config, err, want)
		}
	}
	t.Run("no PATH", func(t *testing.T) {
		t.Setenv("PATH", "")
		err := New().Configure(t.Context(), json.RawMessage(`{"command":["ls"]}`))
		if err == nil || !strings.Contains(err.Error(), "add PATH to the handler's env") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the working directory in PATH", func(t *testing.T) {
		t.Chdir(dir)
		t.Setenv("PATH", ".")
		if err := os.WriteFile("tool", nil, 0o700); err != nil {
			t.Fatal(err)
		}
		err := New().Configure(t.Context(), json.RawMessage(`{"command":["tool"]}`))
		if err == nil || !strings.Contains(err.Error(), "write ./tool") {
			t.Errorf("got %v", err)
		}
	})
}

func TestEventThatCannotBeEncodedIsRejected(t *testing.T) {
	ev := event
	ev.Object = json.RawMessage("{\n")
	if _, err := script(t, "exit 0").Handle(t.Context(), ev); !errors.Is(err, handler.ErrReject) {
		t.Errorf("got %v, want a reject", err)
	}
}

func TestUnconfigured(t *testing.T) {
	if _, err := New().Handle(t.Context(), event); err == nil {
		t.Error("an event was taken before Configure")
	}
	if err := New().Health(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSchemaIsJSON(t *testing.T) {
	if !json.Valid(New().Describe().ConfigSchema) {
		t.Error("the config schema is not JSON")
	}
}

// logged runs a script and returns the logged part of its output.
func logged(t *testing.T, text string) []map[string]any {
	t.Helper()
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	out := newOutput(func() *slog.Logger { return logger }, maxLines)
	path, err := find("sh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), process{path: path, arguments: []string{"sh", "-c", text}, stdout: out.stream("stdout"), stderr: out.stream("stderr")}); err != nil {
		t.Fatal(err)
	}
	out.end()
	var records []map[string]any
	for line := range strings.Lines(log.String()) {
		if len(line) > 64<<10 {
			t.Errorf("a log line of %d bytes", len(line))
		}
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		delete(record, "time")
		records = append(records, record)
	}
	return records
}

func said(stream, line string) map[string]any {
	return map[string]any{"level": "INFO", "msg": "command output", "stream": stream, "line": line}
}

func TestOutputIsLoggedByLine(t *testing.T) {
	got := logged(t, `printf 'one\r\n\ntwo'; printf 'three \377\n' >&2`)
	byStream := func(stream string) (of []map[string]any) {
		for _, record := range got {
			if record["stream"] == stream {
				of = append(of, record)
			}
		}
		return of
	}
	if diff := cmp.Diff([]map[string]any{said("stdout", "one"), said("stdout", "two")}, byStream("stdout")); diff != "" {
		t.Errorf("stdout (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]map[string]any{said("stderr", "three \uFFFD")}, byStream("stderr")); diff != "" {
		t.Errorf("stderr (-want +got)\n%s", diff)
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Run("a line of 5 MB", func(t *testing.T) {
		got := logged(t, `head -c 5000000 /dev/zero; echo; echo next`)
		first := said("stdout", strings.Repeat("\x00", maxLine))
		first["cut"] = true
		if diff := cmp.Diff([]map[string]any{first, said("stdout", "next")}, got); diff != "" {
			t.Errorf("(-want +got)\n%.2000s", diff)
		}
	})
	t.Run("a flood of lines", func(t *testing.T) {
		got := logged(t, `i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done`)
		if len(got) != maxLines+1 {
			t.Fatalf("got %d records, want %d and a last one", len(got), maxLines)
		}
		want := map[string]any{"level": "WARN", "msg": "command output cut", "lines": 100.0, "left_out": 4900.0}
		if diff := cmp.Diff(want, got[maxLines]); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestLinesDoNotDependOnWrites holds the splitting of lines to what one write gives, wherever the
// writes are cut.
func TestLinesDoNotDependOnWrites(t *testing.T) {
	text := "a\n\nbb\r\n" + strings.Repeat("c", maxLine) + "\n" + strings.Repeat("d", maxLine+1) + "\ne"
	split := func(size int) string {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		}))
		out := newOutput(func() *slog.Logger { return logger }, maxLines)
		w := out.stream("stdout")
		for p := []byte(text); len(p) > 0; p = p[min(size, len(p)):] {
			if n, err := w.Write(p[:min(size, len(p))]); err != nil || n != min(size, len(p)) {
				t.Fatalf("write: %d, %v", n, err)
			}
		}
		out.end()
		return log.String()
	}
	whole := split(len(text))
	if n := strings.Count(whole, "\n"); n != 5 {
		t.Errorf("got %d lines, want 5", n)
	}
	for _, size := range []int{1, 2, 3, 7, maxLine - 1, maxLine, maxLine + 1} {
		if diff := cmp.Diff(whole, split(size)); diff != "" {
			t.Errorf("writes of %d bytes (-whole +cut)\n%.2000s", size, diff)
		}
	}
}
