package log

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/informd/informd/plugins/handler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ handler.Handler       = (*Handler)(nil)
	_ handler.Describer     = (*Handler)(nil)
	_ handler.Configurer    = (*Handler)(nil)
	_ handler.HealthChecker = (*Handler)(nil)
	_ handler.Drainer       = (*Handler)(nil)
	_ handler.Batcher       = (*Handler)(nil)
)

// event is an event whose line is line(name).
func event(name string) handler.Event {
	return handler.Event{
		ID: "all/u1/updated/7", Rule: "all", Event: handler.Updated, Attempt: 1,
		Resource:  handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: name, UID: "u1", ResourceVersion: "7",
		Object: json.RawMessage(`{"html":"<a&b>","n":9007199254740993}`), Old: json.RawMessage("{\n}"),
	}
}

func line(name string) string {
	return `{"id":"all/u1/updated/7","rule":"all","event":"updated","attempt":1,` +
		`"resource":{"group":"apps","version":"v1","resource":"deployments"},` +
		`"namespace":"shop","name":"` + name + `","uid":"u1","resourceVersion":"7",` +
		`"object":{"html":"<a&b>","n":9007199254740993},"old":{}}` + "\n"
}

func start(t *testing.T, config string) *Handler {
	t.Helper()
	h := New()
	if err := h.Configure(t.Context(), json.RawMessage(config)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Drain(context.Background()); err != nil {
			t.Errorf("drain: %v", err)
		}
	})
	return h
}

func toFile(path string) string {
	config, _ := json.Marshal(map[string]string{"path": path})
	return string(config)
}

func handle(t *testing.T, h *Handler, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := h.Handle(t.Context(), event(name)); err != nil {
			t.Fatalf("event %s: %v", name, err)
		}
	}
}

// Events never go into a file that another user has prepared, at the start or by a rotation.
func TestPreparedFiles(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	prepare := map[string]func(path string) error{
		"is a symbolic link": func(path string) error { return os.Symlink(victim, path) },
		"has a second name":  func(path string) error { return os.Link(victim, path) },
	}
	if os.Geteuid() == 0 {
		prepare["belongs to another user"] = func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o666), os.Chown(path, 61_299, 61_299))
		}
	}
	for says, prepare := range prepare {
		path := filepath.Join(dir, "events")
		rotated := start(t, toFile(path))
		handle(t, rotated, "a")
		if err := errors.Join(os.Remove(path), prepare(path)); err != nil {
			t.Fatal(err)
		}
		if err := New().Configure(t.Context(), json.RawMessage(toFile(path))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("at the start: %v, want that it %s", err, says)
		}
		rotated.out.looked = time.Time{} // long ago
		if _, err := rotated.Handle(t.Context(), event("b")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("after a rotation: %v, want that it %s", err, says)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		handle(t, rotated, "b")
		wantFile(t, path, line("b"))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	wantFile(t, victim, "precious")
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s (-want +got)\n%s", filepath.Base(path), diff)
	}
}

// A line says what the event says, and a terminal that shows it acts on nothing in it.
func TestLinesAreEscaped(t *testing.T) {
	const hostile = "a\u009b31m\u202eb\x7f"
	path := filepath.Join(t.TempDir(), "events")
	h := start(t, toFile(path))
	ev := event(hostile)
	ev.Object = json.RawMessage(`{"a":"` + hostile + `"}`)
	for _, r := range h.HandleBatch(t.Context(), []handler.Event{event("a"), ev, event("b")}) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	const escaped = `a\u009b31m\u202eb\u007f`
	hostileLine := strings.Replace(line(escaped), `{"html":"<a&b>","n":9007199254740993}`, `{"a":"`+escaped+`"}`, 1)
	wantFile(t, path, line("a")+hostileLine+line("b"))
}

func TestLinesAreAppendedToAPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	h := start(t, toFile(path))
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("configuring created the file: %v", err)
	}
	handle(t, h, "a", "b")
	handle(t, start(t, toFile(path)), "c")
	wantFile(t, path, line("a")+line("b")+line("c"))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the file's mode is %o", mode)
	}
}

func TestConcurrentLinesDoNotMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	handlers := []*Handler{start(t, toFile(path)), start(t, toFile(path))} // as two processes would
	want := make(map[string]bool)
	var wg sync.WaitGroup
	for i := range 40 {
		name := strings.Repeat("x", i*200) + strconv.Itoa(i)
		want[line(name)] = true
		wg.Go(func() { handle(t, handlers[i%2], name) })
	}
	wg.Wait()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for l := range strings.Lines(string(content)) {
		got[l] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRotatedFileIsReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	h := start(t, toFile(path))
	now := time.Unix(0, 0)
	h.out.now = func() time.Time { return now }

	handle(t, h, "a")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(lookEvery - 1)
	handle(t, h, "b") // not looked yet: the rotated file still gets it
	now = now.Add(1)
	handle(t, h, "c")
	wantFile(t, path+".1", line("a")+line("b"))
	wantFile(t, path, line("c"))

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(lookEvery)
	handle(t, h, "d")
	wantFile(t, path, line("d"))

	if err := os.Truncate(path, 0); err != nil { // copytruncate
		t.Fatal(err)
	}
	handle(t, h, "e")
	wantFile(t, path, line("e"))
}

func TestPartialLineOfAKilledWriterIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(path, []byte(line("a")+`{"id":"cut sh`), 0o600); err != nil {
		t.Fatal(err)
	}
	handle(t, start(t, toFile(path)), "b")
	wantFile(t, path, line("a")+`{"id":"cut sh`+"\n"+line("b"))
}

// inherit makes fd the daemon's standard output.
func inherit(t *testing.T, fd int) *Handler {
	t.Helper()
	t.Setenv(StdoutEnv, strconv.Itoa(fd))
	return start(t, "")
}

// Events that come one after the other do not wait for each other.
func TestOneWritePerEventToInheritedOutput(t *testing.T) {
	// A datagram socket keeps writes apart.
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	h := inherit(t, fds[1])
	syscall.Close(fds[1]) // it has a descriptor of its own
	handle(t, h, "a", "b")
	buf := make([]byte, 4096)
	for _, want := range []string{line("a"), line("b")} {
		n, err := syscall.Read(fds[0], buf)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(buf[:n])); diff != "" {
			t.Errorf("one write (-want +got)\n%s", diff)
		}
	}
}

// A batch is one write to a file. A socket gets up to 4096 bytes of whole lines in each write.
func TestBatch(t *testing.T) {
	broken := event("broken")
	broken.Object = json.RawMessage("{\n")
	events := []handler.Event{event("a"), broken, event("b")}
	check := func(results []handler.Result) {
		t.Helper()
		if len(results) != 3 || results[0].Err != nil || !errors.Is(results[1].Err, handler.ErrReject) || results[2].Err != nil {
			t.Errorf("got %v", results)
		}
	}
	path := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(path, []byte("cut sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := start(t, toFile(path))
	check(h.HandleBatch(t.Context(), events))
	if err := h.HandleBatch(t.Context(), []handler.Event{broken})[0].Err; !errors.Is(err, handler.ErrReject) {
		t.Errorf("got %v", err)
	}
	wantFile(t, path, "cut sh\n"+line("a")+line("b"))

	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	h = inherit(t, fds[1])
	syscall.Close(fds[1])
	check(h.HandleBatch(t.Context(), events))
	wantWrites(t, fds[0], line("a")+line("b"))

	// Four lines of this length are 4096 bytes, which leaves no room to end a line that was cut.
	name := strings.Repeat("n", together/4-len(line("")))
	longer := name + strings.Repeat("n", together)
	var four []handler.Event
	for _, n := range []string{name, name, name, name, longer, "a", "b"} {
		four = append(four, event(n))
	}
	for _, r := range h.HandleBatch(t.Context(), four) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
	l := line(name)
	wantWrites(t, fds[0], l+l+l, l, line(longer), line("a")+line("b"))
}

// wantWrites reads writes from a datagram socket.
func wantWrites(t *testing.T, fd int, want ...string) {
	t.Helper()
	buf := make([]byte, 64<<10)
	for _, one := range want {
		n, err := syscall.Read(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(one, string(buf[:n])); diff != "" {
			t.Errorf("one write (-want +got)\n%s", diff)
		}
	}
}

// Lines that were written whole before a write failed are done, and the others are retried.
func TestBatchIsCut(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := New()
	h.out = newOutput("")
	h.out.file, h.out.whole = w, true
	results := make(chan []handler.Result)
	go func() {
		results <- h.HandleBatch(t.Context(), []handler.Event{event("a"), event(strings.Repeat("x", 1<<20)), event("b")})
	}()
	beginsWrite(t, r)
	if err := w.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	got := <-results
	if got[0].Err != nil || !errors.Is(got[1].Err, os.ErrDeadlineExceeded) || !errors.Is(got[2].Err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", got)
	}
	w.Close()
	r.Close()
}

// If the time of a batch is over while a write hangs, the lines before it are done. Only the line
// that is being written may come twice: the lines behind it are not written.
func TestBatchRunsOutOfTime(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := inherit(t, int(w.Fd()))
	w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan []handler.Result)
	huge := event(strings.Repeat("x", 1<<20))
	go func() { results <- h.HandleBatch(ctx, []handler.Event{event("a"), huge, event("b")}) }()
	begun := make([]byte, len(line("a"))+1) // the write of the huge line has begun, and hangs
	if _, err := io.ReadFull(r, begun); err != nil {
		t.Fatal(err)
	}
	cancel()
	got := <-results
	if got[0].Err != nil || !errors.Is(got[1].Err, context.Canceled) || !errors.Is(got[2].Err, context.Canceled) {
		t.Errorf("got %v", got)
	}
	read := drain(r)
	handle(t, h, "c")
	if err := h.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if want := line(huge.Name) + line("c"); string(begun[len(begun)-1:])+<-read != want {
		t.Error("what follows the line that hung is not the next event's")
	}
}

// Under a host that is not informd, nobody would ever see a line.
func TestOutputOfNobodyIsRefused(t *testing.T) {
	if value, ok := os.LookupEnv(StdoutEnv); ok {
		t.Fatalf("%s=%s is set", StdoutEnv, value)
	}
	err := New().Configure(t.Context(), json.RawMessage("{}"))
	if err == nil || !strings.HasPrefix(err.Error(), "path: required") {
		t.Errorf("got %v", err)
	}
}

func TestInheritedOutputMustBeOpen(t *testing.T) {
	for value, want := range map[string]string{
		"":      "3 or more",
		"x":     "3 or more",
		"-3":    "3 or more",
		"1":     "3 or more", // the protocol's
		"70000": "3 or more",
		"65000": "not open",
	} {
		t.Setenv(StdoutEnv, value)
		if err := New().Configure(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%q: got %v, want %q", StdoutEnv, value, err, want)
		}
	}
}

func TestReaderThatLeftIsARetry(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := inherit(t, int(w.Fd()))
	w.Close()
	r.Close()
	_, err = h.Handle(t.Context(), event("a"))
	if !errors.Is(err, syscall.EPIPE) || errors.Is(err, handler.ErrReject) {
		t.Errorf("got %v, want a retry for EPIPE", err)
	}
	if h.Health(t.Context()) == nil {
		t.Error("healthy after a failed write")
	}
}

func TestFullDiskIsARetry(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("only Linux has " + full)
	}
	h := start(t, toFile(full))
	for range 2 {
		if _, err := h.Handle(t.Context(), event("a")); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, handler.ErrReject) {
			t.Errorf("got %v, want a retry for ENOSPC", err)
		}
	}
	if h.Health(t.Context()) == nil {
		t.Error("healthy after a failed write")
	}
}

// beginsWrite waits until a line has begun to enter the pipe, and takes its first byte.
func beginsWrite(t *testing.T, r *os.File) {
	t.Helper()
	var first [1]byte
	if _, err := r.Read(first[:]); err != nil || first[0] != '{' {
		t.Fatalf("got %q, %v; want the beginning of a line", first, err)
	}
}

// drain reads r to its end.
func drain(r *os.File) <-chan string {
	read := make(chan string, 1)
	go func() {
		var all strings.Builder
		_, _ = r.WriteTo(&all)
		r.Close()
		read <- all.String()
	}()
	return read
}

func TestCutLineIsEnded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := New()
	h.out = newOutput("")
	h.out.file = w

	// A line that the pipe cannot hold stops within it when the time to write is over.
	huge := strings.Repeat("x", 1<<20)
	failed := make(chan error)
	go func() {
		_, err := h.Handle(t.Context(), event(huge))
		failed <- err
	}()
	beginsWrite(t, r)
	if err := w.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, want a write that fails half way", err)
	}
	// The next fails before its first byte: the cut line remains to be ended.
	if _, err := h.Handle(t.Context(), event("a")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, want a write that fails", err)
	}
	if err := w.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}

	read := drain(r)
	handle(t, h, "b", "c")
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut, rest, _ := strings.Cut(<-read, "\n")
	if !strings.HasPrefix(line(huge)[1:], cut) {
		t.Errorf("the cut line is no beginning of its event: %d bytes", len(cut))
	}
	if diff := cmp.Diff(line("b")+line("c"), rest); diff != "" {
		t.Errorf("after the cut line (-want +got)\n%s", diff)
	}
}

func TestHangingWriteDelaysNoEventBeyondItsLimit(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := inherit(t, int(w.Fd()))
	w.Close()

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for i := range cap(errs) { // none fits into a pipe that nobody reads: one writes, the others wait their turn
		wg.Go(func() {
			_, err := h.Handle(ctx, event(strings.Repeat("x", 1<<20)+strconv.Itoa(i)))
			errs <- err
		})
	}
	beginsWrite(t, r)
	cancel()
	wg.Wait()
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
	}
	if h.Health(t.Context()) == nil {
		t.Error("healthy while a write hangs")
	}
	if err := h.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("drain: got %v, want the context's error", err)
	}

	read := drain(r)
	handle(t, h, "last")
	if err := h.Health(t.Context()); err != nil {
		t.Errorf("unhealthy after a write that succeeded: %v", err)
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	all := <-read
	if !strings.HasSuffix(all, "\n"+line("last")) || strings.Count(all, "\n") != 2 {
		t.Errorf("got %d lines, want the one that hung and the last", strings.Count(all, "\n"))
	}
	if _, err := h.Handle(t.Context(), event("late")); err == nil {
		t.Error("an event was taken after Drain")
	}
}

func TestEventThatCannotBeEncodedIsRejected(t *testing.T) {
	h := start(t, toFile(filepath.Join(t.TempDir(), "events")))
	ev := event("a")
	ev.Object = json.RawMessage("{\n")
	if _, err := h.Handle(t.Context(), ev); !errors.Is(err, handler.ErrReject) {
		t.Errorf("got %v, want a reject", err)
	}
	handle(t, h, "b")
}

func TestConfigRefused(t *testing.T) {
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		`{"pth":"x"}`:                           `did you mean "path"`,
		`{"path":""}`:                           "path: must not be empty",
		`{"path":1}`:                            "path: must be a string",
		toFile(dir):                             "no regular file",
		toFile(fifo):                            "no regular file",
		toFile(filepath.Join(dir, "none", "x")): "does not exist, create it first",
		toFile(filepath.Join(file, "x")):        "path: ",
		toFile(filepath.Join(dir, "nul\x00")):   "path: ",
		toFile(strings.Repeat("long/", 2000) + "event"): "path: ",
	} {
		if err := New().Configure(t.Context(), json.RawMessage(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", config, err, want)
		}
	}
}

func TestUnconfigured(t *testing.T) {
	h := New()
	if _, err := h.Handle(t.Context(), event("a")); err == nil {
		t.Error("an event was taken before Configure")
	}
	if err := errors.Join(h.Health(t.Context()), h.Drain(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestSchemaIsJSON(t *testing.T) {
	if !json.Valid(New().Describe().ConfigSchema) {
		t.Error("the config schema is not JSON")
	}
}

func BenchmarkHandle(b *testing.B) {
	h := New()
	if err := h.Configure(b.Context(), json.RawMessage(toFile(filepath.Join(b.TempDir(), "events")))); err != nil {
		b.Fatal(err)
	}
	defer h.Drain(b.Context())
	ev := event("a")
	ev.Object = json.RawMessage(`{"data":"` + strings.Repeat("x", 3000) + `"}`)
	for b.Loop() {
		if _, err := h.Handle(b.Context(), ev); err != nil {
			b.Fatal(err)
		}
	}
}
