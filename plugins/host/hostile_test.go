package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/procfs"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// An event that is never answered costs its caller the time limit, and others nothing. A handler
// that answers no event is ended.
func TestNeverAnswers(t *testing.T) {
	t.Parallel()
	s := spec("never")
	s.Concurrency, s.Timeout = 4, 50*time.Millisecond
	h := start(t, s, host.Options{Backoff: host.Backoff{Min: time.Millisecond}})
	ready(t, h)
	if _, err := h.Handle(t.Context(), pod("x")); err == nil || err.Error() != "no answer within the time limit of 50ms" {
		t.Errorf("got %v", err)
	}
	// Sixteen are forgiven.
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5 {
				_, _ = h.Handle(t.Context(), pod(fmt.Sprint(i)))
			}
		})
	}
	wg.Wait()
	waitFor(t, "a restart", func() bool { return h.Status().Restarts > 0 })
}

// A handler that does not read its stream is ended, although it is healthy otherwise: gRPC's flow
// control would block its callers for ever.
func TestDeaf(t *testing.T) {
	t.Parallel()
	s := spec("deaf")
	s.Concurrency, s.Timeout = 2, 50*time.Millisecond
	log := &recorder{}
	h := start(t, s, host.Options{Logger: log.logger(), Backoff: host.Backoff{Min: time.Millisecond}})
	ready(t, h)
	ev := pod("x")
	ev.Object = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	if _, err := h.Handle(t.Context(), ev); err == nil {
		t.Error("no error")
	}
	waitFor(t, "a restart", func() bool { return h.Status().Restarts > 0 })
	if got := log.lines(); !slices.ContainsFunc(got, func(line string) bool {
		return strings.Contains(line, "it did not take an event from its stream within 100ms")
	}) {
		t.Errorf("log: %q", got)
	}
}

func TestTimeLimitCancels(t *testing.T) {
	t.Parallel()
	s := spec("echo")
	s.Concurrency, s.Timeout = 1, 100*time.Millisecond
	h := start(t, s, host.Options{})
	ready(t, h)
	if _, err := h.Handle(t.Context(), pod("wait")); err == nil {
		t.Error("no error")
	}
	// The handler let go of the event and answers it, so its place is free.
	waitFor(t, "a late answer", func() bool { c := h.Status().Counts; return c.Late+c.Answered == 1 })
	if _, err := h.Handle(t.Context(), pod("done")); err != nil {
		t.Error(err)
	}
}

// The end of the caller's context cancels the event, whether it waits or was sent.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	s := spec("echo")
	s.Concurrency = 1
	h := start(t, s, host.Options{})
	ready(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	for _, name := range []string{"wait-1", "wait-2"} {
		go func() { _, err := h.Handle(ctx, pod(name)); results <- err }()
	}
	waitFor(t, "one sent, one waiting", func() bool { s := h.Status(); return s.InFlight == 1 && s.Waiting == 1 })
	cancel()
	for range 2 {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := h.Handle(t.Context(), pod("done")); err != nil {
		t.Error(err)
	}
	if s := h.Status(); s.InFlight != 0 || s.Waiting != 0 || s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
}

func TestStrayAnswers(t *testing.T) {
	t.Parallel()
	for mode, stray := range map[string]uint64{"twice": 2, "unknown": 3, "strays": 100_000} {
		t.Run(mode, func(t *testing.T) {
			log := &recorder{}
			h := start(t, spec(mode), host.Options{Logger: log.logger()})
			ready(t, h)
			for range 10 {
				if _, err := h.Handle(t.Context(), pod("x")); err != nil {
					t.Fatal(err)
				}
			}
			waitFor(t, "the last stray answer", func() bool { return h.Status().Counts.Unknown == 10*stray })
			if got := log.count("handler answered events that it does not have: ignored"); got != 1 {
				t.Errorf("logged %d times", got)
			}
			if s := h.Status(); s.Restarts != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A handler that sends endless answers to events that it does not have is read slowly. It does not
// keep the daemon busy.
func TestChatter(t *testing.T) {
	t.Parallel()
	began := time.Now()
	h := start(t, spec("chatter"), host.Options{DrainTimeout: 10 * time.Millisecond})
	ready(t, h)
	waitFor(t, "many answers", func() bool { return h.Status().Counts.Unknown >= 20 })
	n := h.Status().Counts.Unknown
	if most := uint64(time.Since(began) / (5 * time.Millisecond)); n > most {
		t.Errorf("%d answers were read in the time of %d", n, most)
	}
}

// At the end, a handler may answer events that were cancelled.
func TestAnswersAtTheEnd(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := host.New(spec("echo"), patient(host.Options{RunDir: shortDir(t), Logger: log.logger()}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	ready(t, h)
	lost := make(chan error, 1)
	go func() { _, err := h.Handle(t.Context(), pod("wait")); lost <- err }()
	waitFor(t, "an event in flight", func() bool { return h.Status().InFlight == 1 })
	cancel()
	if err := <-lost; !errors.Is(err, handler.ErrLost) {
		t.Errorf("got %v", err)
	}
	<-ended
	if c := h.Status().Counts; c.Late != 1 || c.Unknown != 0 {
		t.Errorf("%+v", c)
	}
	if got := log.count("handler answered events that it does not have: ignored"); got != 0 {
		t.Errorf("complained of: %q", log.lines())
	}
}

func TestOddAnswers(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"empty":       "the handler's answer says neither done, retry nor reject",
		"actions":     "rejected: the answer has 65 actions; at most 64 are allowed",
		"long-reason": "a b" + strings.Repeat("x", 1021) + "…",
	} {
		t.Run(mode, func(t *testing.T) {
			h := start(t, spec(mode), host.Options{})
			ready(t, h)
			if _, err := h.Handle(t.Context(), pod("x")); err == nil || err.Error() != want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// When a stream breaks, its process is ended, and callers that wait for answers get an error.
func TestLost(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"echo": "it exited with status 3",
		"huge": "larger than max",
	} {
		t.Run(mode, func(t *testing.T) {
			h := start(t, spec(mode), host.Options{Backoff: host.Backoff{Min: time.Millisecond}})
			ready(t, h)
			_, err := h.Handle(t.Context(), pod("exit"))
			if !errors.Is(err, handler.ErrLost) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want …%s…", err, want)
			}
			waitFor(t, "a restart", func() bool { s := h.Status(); return s.Restarts > 0 && s.State == host.Running })
		})
	}
	for mode, want := range map[string]string{
		"hangs-up": "it ended the stream of deliveries",
		"fails":    "out of luck",
	} {
		t.Run(mode, func(t *testing.T) {
			h := start(t, spec(mode), host.Options{Backoff: host.Backoff{Min: time.Hour}})
			waitFor(t, "the failure", func() bool { return strings.Contains(h.Status().Reason, want) })
		})
	}
}

// What a process wrote last goes into the reason for the loss, and from there into a dead letter.
// The status says when and why it failed, also while the next process runs.
func TestLastWords(t *testing.T) {
	t.Parallel()
	began := time.Now()
	h := start(t, spec("echo"), host.Options{Backoff: host.Backoff{Min: time.Millisecond}})
	ready(t, h)
	if s := h.Status(); s.LastFailure != (host.Failure{}) {
		t.Errorf("nothing has failed: %+v", s.LastFailure)
	}
	_, err := h.Handle(t.Context(), pod("die"))
	const want = `it exited with status 1; its last line on standard error: "ValueError: no such team"; ` +
		`before it: Traceback: | in handle`
	if !errors.Is(err, handler.ErrLost) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want …%s", err, want)
	}
	waitFor(t, "a restart", func() bool { s := h.Status(); return s.Restarts > 0 && s.State == host.Running })
	if s := h.Status(); !strings.HasPrefix(s.LastFailure.Reason, "it exited with status 1") || s.LastFailure.At.Before(began) {
		t.Errorf("failed at %v: %q", s.LastFailure.At, s.LastFailure.Reason)
	}
}

// infoOnly is a log at the level info.
type infoOnly struct{ recording }

func (infoOnly) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (h infoOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return infoOnly{h.recording.WithAttrs(attrs).(recording)}
}

// A handler has a log level of its own, below the daemon's or above it.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[string][2]int{"": {0, 1}, "debug": {1, 1}, "error": {0, 0}} {
		t.Run(level, func(t *testing.T) {
			var log recorder
			s := spec("echo")
			s.LogLevel = level
			h := start(t, s, host.Options{Logger: slog.New(infoOnly{recording{r: &log}})})
			ready(t, h)
			for _, name := range []string{"debug", "log"} {
				if _, err := h.Handle(t.Context(), pod(name)); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = h.Handle(t.Context(), pod("exit")) // by then its lines have come
			got := [2]int{log.count("a detail"), log.count("hello from the handler")}
			if got != want {
				t.Errorf("got %v lines of debug and warn, want %v: %q", got, want, log.lines())
			}
		})
	}
}

// If a process is killed with -9, the events that it has are lost to it, and the others go to the
// next process.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := spec("echo")
	s.Concurrency = 1 // one at a time, even if it hangs
	h := start(t, s, host.Options{Backoff: host.Backoff{Min: time.Millisecond}})
	ready(t, h)
	sent := make(chan error)
	go func() { _, err := h.Handle(t.Context(), pod("wait")); sent <- err }()
	waitFor(t, "one with the process", func() bool { return h.Status().InFlight == 1 })
	waiting := make(chan error)
	go func() { _, err := h.Handle(t.Context(), pod("done")); waiting <- err }()
	waitFor(t, "one waiting", func() bool { return h.Status().Waiting == 1 })
	if err := syscall.Kill(h.Status().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; !errors.Is(err, handler.ErrLost) || !strings.Contains(err.Error(), "SIGKILL") {
		t.Errorf("got %v", err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("the event that was not sent: %v", err)
	}
}

// A stopped process (SIGSTOP) answers no health check, and is killed.
func TestStopped(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{
		HealthInterval: 100 * time.Millisecond, HealthTimeout: 2 * time.Second, Backoff: host.Backoff{Min: time.Millisecond},
	})
	ready(t, h)
	pid := h.Status().PID
	stop(t, pid)
	if _, err := h.Handle(t.Context(), pod("x")); !errors.Is(err, handler.ErrLost) || !strings.Contains(err.Error(), "it hangs") {
		t.Errorf("got %v", err)
	}
	waitFor(t, "another process", func() bool { s := h.Status(); return s.State == host.Running && s.PID != pid })
}

func TestHangsInHealth(t *testing.T) {
	t.Parallel()
	h := start(t, spec("hang-health"), host.Options{
		HealthInterval: 10 * time.Millisecond, HealthTimeout: 50 * time.Millisecond, Backoff: host.Backoff{Min: time.Hour},
	})
	waitFor(t, "the failure", func() bool { return strings.Contains(h.Status().Reason, "it hangs") })
}

// A health check that returns a gRPC status was answered, whatever the code: the handler lives and
// reports a problem.
func TestHealthStatus(t *testing.T) {
	t.Parallel()
	h := start(t, spec("health-status"), host.Options{HealthInterval: 10 * time.Millisecond})
	ready(t, h)
	waitFor(t, "the problem", func() bool { s := h.Status(); return s.Problem == "the database is down" || s.Restarts > 0 })
	if _, err := h.Handle(t.Context(), pod("x")); err != nil {
		t.Error(err)
	}
	if s := h.Status(); s.Restarts != 0 || s.State != host.Running {
		t.Errorf("%+v", s)
	}
}

// The end of a process takes bounded time, whatever the process does. The cleanup of start waits
// for it.
func TestHandlerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hang-drain", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			h := start(t, spec(mode), host.Options{DrainTimeout: 100 * time.Millisecond, StopTimeout: 200 * time.Millisecond})
			ready(t, h)
		})
	}
	t.Run("stopped", func(t *testing.T) {
		h := start(t, spec("echo"), host.Options{DrainTimeout: 100 * time.Millisecond, StopTimeout: 200 * time.Millisecond})
		ready(t, h)
		stop(t, h.Status().PID)
	})
	log := &recorder{}
	t.Run("heeds SIGTERM", func(t *testing.T) {
		ready(t, start(t, spec("heeds-term"), host.Options{Logger: log.logger(), StopTimeout: 4 * time.Second}))
	})
	if log.count("tidied up") != 1 {
		t.Errorf("it was not given the time that is left after SIGTERM: %q", log.lines())
	}
}

// At the end of Run, callers that still wait get an error.
func TestEndOfRun(t *testing.T) {
	t.Parallel()
	s := spec("echo")
	s.Concurrency = 1
	h := host.New(s, patient(host.Options{RunDir: shortDir(t)}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	ready(t, h)
	results := make(chan error, 2)
	for _, name := range []string{"wait-1", "wait-2"} {
		go func() { _, err := h.Handle(t.Context(), pod(name)); results <- err }()
	}
	waitFor(t, "one sent, one waiting", func() bool { s := h.Status(); return s.InFlight == 1 && s.Waiting == 1 })
	cancel()
	if err := <-results; !errors.Is(err, handler.ErrLost) {
		t.Errorf("sent: got %v", err)
	}
	if err := <-results; err == nil || errors.Is(err, handler.ErrLost) {
		t.Errorf("not sent: got %v", err)
	}
	<-done
	if _, err := h.Handle(t.Context(), pod("x")); err == nil {
		t.Error("a stopped host took an event")
	}
}

// Signals that are meant for the daemon do not end a handler that has work to do.
func TestSignals(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{})
	ready(t, h)
	pid := h.Status().PID
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGINT} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Handle(t.Context(), pod("done")); err != nil {
		t.Error(err)
	}
	if s := h.Status(); s.PID != pid {
		t.Errorf("%+v", s)
	}
	if pgid, err := syscall.Getpgid(pid); err != nil || pgid != pid {
		t.Errorf("not in a group of its own: %d, %v", pgid, err)
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := start(t, spec("echo"), host.Options{Logger: log.logger()})
	ready(t, h)
	_, err := h.Handle(t.Context(), pod("fault"))
	if err == nil || err.Error() != "panic: runtime error: index out of range [0] with length 0" {
		t.Errorf("got %v", err)
	}
	_, err = h.Handle(t.Context(), pod("panic"))
	if err == nil || err.Error() != "panic: a value of type string; the handler's log has it" {
		t.Errorf("got %v", err)
	}
	waitFor(t, "the stacks", func() bool { return log.count("panic") == 2 })
	if s := h.Status(); s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
}

// Whatever a process prints cannot fill, block or crash the daemon, and the process continues.
func TestFlood(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := start(t, spec("flood"), host.Options{Logger: log.logger(), LogLinesBurst: 10, LogLinesRate: 1})
	ready(t, h)
	if _, err := h.Handle(t.Context(), pod("x")); err != nil {
		t.Error(err)
	}
	if got := len(log.lines()); got > 100 {
		t.Errorf("%d lines passed", got)
	}
}

func TestLongLine(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := start(t, spec("long-line"), host.Options{Logger: log.logger()})
	ready(t, h)
	for i, name := range []string{"stderr", "stdout", "late-stdout", "late-stderr"} {
		if _, err := h.Handle(t.Context(), pod(name)); err != nil {
			t.Error(err)
		}
		waitFor(t, name, func() bool { return log.count(strings.Repeat("y", 8<<10)) == i+1 })
	}
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := start(t, spec("odd-lines"), host.Options{Logger: log.logger()})
	ready(t, h)
	if _, err := h.Handle(t.Context(), pod("x")); err != nil {
		t.Error(err)
	}
	waitFor(t, "the last line", func() bool { return log.count("goroutine 1 [running]:") == 1 })
	want := []string{
		`INFO {"@message":5} handler=odd-lines via=stderr`,
		`INFO {"@level":7,"@message":null} handler=odd-lines via=stderr`,
		`ERROR five handler=odd-lines via=stderr _handler=spoof _via=none n=9007199254740993 deep=[[{}]]`,
		`WARN from slog handler=odd-lines via=stderr`,
		`DEBUG hidden handler=odd-lines via=stderr`,
		`INFO {"@message": handler=odd-lines via=stderr`,
		`INFO [2J reversed handler=odd-lines via=stderr`,
		`INFO null handler=odd-lines via=stderr`,
		`ERROR panic: boom handler=odd-lines via=stderr`,
		`ERROR goroutine 1 [running]: handler=odd-lines via=stderr`,
	}
	got := log.lines()
	if diff := cmp.Diff(want, got[len(got)-len(want):]); diff != "" {
		t.Error(diff)
	}
}

func TestHandlersLog(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := start(t, spec("echo"), host.Options{Logger: log.logger()})
	ready(t, h)
	if _, err := h.Handle(t.Context(), pod("log")); err != nil {
		t.Error(err)
	}
	waitFor(t, "the line", func() bool { return log.count("hello from the handler") == 1 })
	want := "WARN hello from the handler handler=echo via=stderr n=1152921504606846976 name=log"
	if got := log.lines(); got[len(got)-1] != want {
		t.Errorf("got %q", got)
	}
}

// Processes that a handler started end with it. Those that left its process group at least delay
// nothing.
func TestGrandchildren(t *testing.T) {
	t.Parallel()
	h := start(t, spec("grandchild"), host.Options{Backoff: host.Backoff{Min: time.Hour}})
	ready(t, h)
	_, err := h.Handle(t.Context(), pod("x"))
	child, convErr := strconv.Atoi(fmt.Sprint(err))
	if convErr != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(h.Status().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the failure", func() bool { return h.Status().State == host.BackingOff })
	waitFor(t, "the grandchild's end", func() bool { return gone(child) })

	h = start(t, spec("escaped-grandchild"), host.Options{})
	ready(t, h)
}

func TestEnvironment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	h := start(t, spec("environment"), host.Options{})
	ready(t, h)
	_, err := h.Handle(t.Context(), pod("x"))
	want := "PATH HOME TMPDIR MODE GORACE INFORMD_HANDLER_COOKIE PLUGIN_MIN_PORT PLUGIN_MAX_PORT PLUGIN_PROTOCOL_VERSIONS PLUGIN_UNIX_SOCKET_DIR PLUGIN_CLIENT_CERT INFORMD_LOG_LEVEL"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestStdout(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	defer func() { _ = w.Close() }()
	s := spec("stdout")
	s.Stdout = w
	h := start(t, s, host.Options{})
	ready(t, h)
	if _, err := h.Handle(t.Context(), pod("web-0")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "3 web-0\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// gone reports whether a process has ended. A zombie has.
func gone(pid int) bool { s := state(pid); return s == "" || s == "Z" }

// stop stops a process, and returns when all its threads have stopped.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the process to stop", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, task := range tasks {
			tid, _ := strconv.Atoi(filepath.Base(task))
			if state(tid) != "T" {
				return false
			}
		}
		return true
	})
}

// state returns the kernel's letter for the state of a process or thread; empty if there is none of
// that number.
func state(pid int) string {
	p, err := procfs.Read(pid)
	if err != nil {
		return ""
	}
	return string(p.State)
}

// The event holds two objects of the largest size that a cluster allows. It exceeds gRPC's default
// limit, and a small window.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{})
	ready(t, h)
	object := []byte(`"` + strings.Repeat("x", 1_500_000) + `"`)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ev := pod(fmt.Sprint("done-", i))
			ev.Object, ev.Old = object, object
			if _, err := h.Handle(t.Context(), ev); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 32 { // small ones, which one message could not hold
		wg.Go(func() {
			ev := pod(fmt.Sprint("done-group-", i))
			for n := range 1000 {
				item := pod(fmt.Sprint(strings.Repeat("x", 240), n))
				item.Object, item.Old = []byte("1"), nil
				ev.Items = append(ev.Items, item)
			}
			if _, err := h.Handle(t.Context(), ev); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ev := pod("done")
	ev.Object = make([]byte, 64<<20)
	if _, err := h.Handle(t.Context(), ev); !errors.Is(err, handler.ErrReject) {
		t.Errorf("got %v", err)
	}
	ev = pod("done\xff")
	ev.Namespace = "\xfe"
	if _, err := h.Handle(t.Context(), ev); err != nil {
		t.Errorf("broken UTF-8: %v", err)
	}
	if s := h.Status(); s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
}

// A failure that repeats is logged once.
func TestComplainsOnce(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := start(t, host.Spec{Name: "gone", Path: "/no/such/handler"}, host.Options{Logger: log.logger(), Backoff: host.Backoff{Min: time.Millisecond, Max: time.Millisecond}})
	waitFor(t, "ten attempts", func() bool { return h.Status().Restarts >= 10 })
	if got := log.count("handler failed"); got != 1 {
		t.Errorf("%d lines", got)
	}
	if s := h.Status(); s.Reason != "/no/such/handler does not exist" {
		t.Errorf("%+v", s)
	}
}

// A call that never returns delays only its own object. The process is ended long after the event's
// time limit.
func TestUnansweredEvent(t *testing.T) {
	t.Parallel()
	s := spec("never-one")
	s.Timeout = 50 * time.Millisecond
	log := &recorder{}
	h := start(t, s, host.Options{Logger: log.logger(), LateTimeout: 200 * time.Millisecond, Backoff: host.Backoff{Min: time.Millisecond}})
	ready(t, h)
	if _, err := h.Handle(t.Context(), pod("never")); err == nil || !strings.Contains(err.Error(), "time limit") {
		t.Errorf("got %v", err)
	}
	waitFor(t, "another process", func() bool {
		_, err := h.Handle(t.Context(), pod("x")) // is answered all the while
		return (err == nil || errors.Is(err, handler.ErrLost)) && h.Status().Restarts > 0
	})
	want := "it left an event without an answer for more than 200ms after its time limit"
	if lines := strings.Join(log.lines(), "\n"); !strings.Contains(lines, want) {
		t.Errorf("%q is not in the log:\n%s", want, lines)
	}
}
