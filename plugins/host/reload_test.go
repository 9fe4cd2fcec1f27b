package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/serve"
)

func init() {
	// It keeps a journal of its begins and ends, in the file that JOURNAL names, under the version in
	// VERSION.
	modes["journal"] = func() { serve.Main(&journal{version: os.Getenv("VERSION")}) }
	modes["not-well"] = func() { serve.Main(&journal{problem: "no disk"}) }
}

type journal struct {
	version, problem string
	mu               sync.Mutex
	held             []string // is written at the drain
}

func (j *journal) Describe() handler.Description {
	return handler.Description{Name: "journal", Version: j.version}
}

func (j *journal) Health(context.Context) error {
	if j.problem != "" {
		return errors.New(j.problem)
	}
	if os.Getenv("LEAVES") != "" {
		time.AfterFunc(200*time.Millisecond, func() { os.Exit(7) })
	}
	if os.Getenv("TELLS") != "" {
		return j.write(j.version, "is well")
	}
	return nil
}

func (j *journal) write(words ...any) error {
	f, err := os.OpenFile(os.Getenv("JOURNAL"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = fmt.Fprintln(f, words...)
	return err
}

// has reports whether some process has written this.
func (j *journal) has(words string) bool {
	text, _ := os.ReadFile(os.Getenv("JOURNAL"))
	return strings.Contains(string(text), words)
}

func (j *journal) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	switch {
	case strings.HasPrefix(ev.Name, "slow"):
		_ = j.write(j.version, "begins", ev.Name)
		for !j.has("is well") && ctx.Err() == nil { // until another process runs beside this one
			time.Sleep(time.Millisecond)
		}
	case strings.HasPrefix(ev.Name, "wait"): // for a signal
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGUSR1)
		_ = j.write(j.version, "begins", ev.Name)
		<-signals
	case strings.HasPrefix(ev.Name, "deaf"): // to its time limit, and to the end of its process
		_ = j.write(j.version, "begins", ev.Name)
		time.Sleep(time.Hour)
	case strings.HasPrefix(ev.Name, "held"):
		j.mu.Lock()
		defer j.mu.Unlock()
		j.held = append(j.held, ev.Name)
		return handler.Answer{}, nil
	}
	return handler.Answer{}, j.write(j.version, "ends", ev.Name)
}

func (j *journal) Drain(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.held) > 0 {
		time.Sleep(300 * time.Millisecond) // another process has time to show that it does not wait
	}
	for _, name := range j.held {
		if err := j.write(j.version, "drains", name); err != nil {
			return err
		}
	}
	return nil
}

func journalSpec(t *testing.T, version string) (host.Spec, func() []string) {
	path := filepath.Join(t.TempDir(), "journal")
	s := spec("journal")
	s.Env = append(s.Env, "VERSION="+version, "JOURNAL="+path)
	return s, func() []string {
		content, _ := os.ReadFile(path) // empty if nothing was written
		return strings.Split(strings.TrimSpace(string(content)), "\n")
	}
}

func ofVersion(s host.Spec, version string) host.Spec {
	s.Env = append([]string(nil), s.Env...)
	for i, v := range s.Env {
		if strings.HasPrefix(v, "VERSION=") {
			s.Env[i] = "VERSION=" + version
		}
	}
	return s
}

// The old process answers its events and drains before the new one takes an event. Callers do not
// notice. From then on the new spec is launched.
func TestReload(t *testing.T) {
	t.Parallel()
	s, read := journalSpec(t, "1")
	h := start(t, s, host.Options{})
	ready(t, h)
	old := h.Status().PID
	var wg sync.WaitGroup
	handle := func(name string) {
		wg.Go(func() {
			if a, err := h.Handle(t.Context(), pod(name)); err != nil {
				t.Errorf("%s: %v, %v", name, a, err)
			}
		})
	}
	handle("held-1")
	handle("slow-1")
	waitFor(t, "the journal's begin", func() bool { return strings.Contains(strings.Join(read(), "\n"), "begins") })
	next := ofVersion(s, "2")
	next.Env = append(next.Env, "TELLS=1")
	if err := h.Reload(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if got := h.Status(); got.State != host.Running || got.Handler.Version != "2" || got.PID == old || got.Failures != 0 {
		t.Errorf("%+v", got)
	}
	handle("last")
	wg.Wait()
	want := "1 begins slow-1\n2 is well\n1 ends slow-1\n1 drains held-1\n2 ends last"
	seen := make(map[string]bool) // a process says more than once that it is well
	lines := slices.DeleteFunc(read(), func(line string) bool {
		again := seen[line]
		seen[line] = true
		return again
	})
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	waitFor(t, "the old one's end", func() bool { return gone(old) })
	taken := h.Status().PID
	if err := syscall.Kill(taken, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "another process", func() bool { got := h.Status(); return got.State == host.Running && got.PID != taken })
	if got := h.Status().Handler.Version; got != "2" {
		t.Errorf("after a crash, version %s is launched", got)
	}
}

// If the new process does not work, or is not healthy, everything stays as it is.
func TestReloadToAFailingProcess(t *testing.T) {
	t.Parallel()
	s, _ := journalSpec(t, "1")
	h := start(t, s, host.Options{StartTimeout: 5 * time.Second})
	ready(t, h)
	before := h.Status()
	for mode, want := range map[string]string{
		"exits":    "it exited with status 3; its last line on standard error: \"cannot open /etc/oncall.conf\"",
		"refuses":  "it refuses its config: routes.0.channel: no such channel: ops; token is missing",
		"not-well": "it reports a problem: no disk",
	} {
		if err := h.Reload(t.Context(), spec(mode)); err == nil || err.Error() != "the new process: "+want {
			t.Errorf("%s: got %v", mode, err)
		}
	}
	if err := h.Reload(t.Context(), host.Spec{Path: "/no/such/handler"}); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.Reload(impatient, spec("silent")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if after := h.Status(); after.PID != before.PID || after.State != host.Running || after.Restarts != 0 || after.Since != before.Since {
		t.Errorf("%+v, before %+v", after, before)
	}
	if _, err := h.Handle(t.Context(), pod("x")); err != nil {
		t.Error(err)
	}
}

// A reload ends the pause of a handler that backs off or is refused.
func TestReloadOfAFailingHandler(t *testing.T) {
	t.Parallel()
	for mode, state := range map[string]host.State{"exits": host.BackingOff, "refuses": host.Refused} {
		t.Run(mode, func(t *testing.T) {
			h := start(t, spec(mode), host.Options{Backoff: host.Backoff{Min: time.Hour, Max: time.Hour}})
			waitFor(t, "the failure", func() bool { return h.Status().State == state })
			if next := time.Until(h.Status().Next); next < 30*time.Second {
				t.Errorf("it is tried again in %v", next)
			}
			s, _ := journalSpec(t, "2")
			if err := h.Reload(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Handle(t.Context(), pod("x")); err != nil {
				t.Error(err)
			}
			if got := h.Status(); got.State != host.Running || !got.Next.IsZero() || got.Reason != "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// If the new process exits before the old one is done, the old one continues, and its spec stays.
func TestReloadToAnEndingProcess(t *testing.T) {
	t.Parallel()
	s, read := journalSpec(t, "1")
	h := start(t, s, host.Options{})
	ready(t, h)
	pid := h.Status().PID
	answered := make(chan error, 1)
	go func() { _, err := h.Handle(t.Context(), pod("wait")); answered <- err }()
	waitFor(t, "the journal's begin", func() bool { return strings.Contains(strings.Join(read(), "\n"), "1 begins wait") })
	next := ofVersion(s, "2")
	next.Env = append(next.Env, "TELLS=1", "LEAVES=1")
	if err := h.Reload(t.Context(), next); err == nil || !strings.Contains(err.Error(), "it exited with status 7") {
		t.Errorf("got %v", err)
	}
	if _, err := h.Handle(t.Context(), pod("x")); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil { // lets it answer
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if got := h.Status(); got.PID != pid || got.Handler.Version != "1" || got.State != host.Running {
		t.Errorf("%+v", got)
	}
}

// An event past its time limit does not delay the change. The new process takes no event before the
// old one has ended, which may still work on it.
func TestReloadPastTimeLimit(t *testing.T) {
	t.Parallel()
	s, read := journalSpec(t, "1")
	s.Timeout = 200 * time.Millisecond
	h := start(t, s, host.Options{DrainTimeout: 50 * time.Millisecond, StopTimeout: 100 * time.Millisecond})
	ready(t, h)
	old := h.Status().PID
	late := make(chan error, 1)
	go func() { _, err := h.Handle(t.Context(), pod("deaf")); late <- err }()
	waitFor(t, "the journal's begin", func() bool { return strings.Contains(strings.Join(read(), "\n"), "begins") })
	if err := h.Reload(t.Context(), ofVersion(s, "2")); err != nil {
		t.Fatal(err)
	}
	if !gone(old) {
		t.Error("the old process is still there when the new one takes events")
	}
	if err := <-late; err == nil || !strings.Contains(err.Error(), "time limit") {
		t.Errorf("got %v", err)
	}
}

// If the old process crashes during the change, its events are lost to it, and the new one takes
// over at once.
func TestReloadDuringCrash(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{Backoff: host.Backoff{Min: time.Hour, Max: time.Hour}})
	ready(t, h)
	lost := make(chan error, 1)
	go func() { _, err := h.Handle(t.Context(), pod("wait")); lost <- err }()
	waitFor(t, "an event with the process", func() bool { return h.Status().InFlight == 1 })
	next, read := journalSpec(t, "2")
	next.Env = append(next.Env, "TELLS=1")
	reloaded := make(chan error, 1)
	go func() { reloaded <- h.Reload(t.Context(), next) }()
	waitFor(t, "the new process", func() bool { return strings.Contains(strings.Join(read(), "\n"), "is well") })
	if err := syscall.Kill(h.Status().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; !errors.Is(err, handler.ErrLost) {
		t.Errorf("got %v", err)
	}
	if err := <-reloaded; err != nil {
		t.Error(err)
	}
	if _, err := h.Handle(t.Context(), pod("x")); err != nil {
		t.Error(err)
	}
}

// Concurrent reloads happen one after the other. Each event is answered once, and the events of an
// object in order.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	s, read := journalSpec(t, "0")
	h := start(t, s, host.Options{})
	ready(t, h)
	ctx, stop := context.WithCancel(t.Context())
	var load, reloads sync.WaitGroup
	sent := make([]int, 4)
	for object := range sent {
		load.Go(func() {
			for ctx.Err() == nil {
				if _, err := h.Handle(t.Context(), pod(fmt.Sprintf("o%d %d", object, sent[object]))); err != nil {
					t.Errorf("object %d, event %d: %v", object, sent[object], err)
				}
				sent[object]++
			}
		})
	}
	for version := range 6 {
		reloads.Go(func() {
			if err := h.Reload(t.Context(), ofVersion(s, fmt.Sprint(version+1))); err != nil {
				t.Error(err)
			}
		})
	}
	reloads.Wait()
	stop()
	load.Wait()
	if got := h.Status(); got.Restarts != 6 || got.Failures != 0 || got.Counts.Lost != 0 {
		t.Errorf("%+v", got)
	}
	seen := make([]int, len(sent))
	for _, line := range read() {
		var version, object, n int
		if _, err := fmt.Sscanf(line, "%d ends o%d %d", &version, &object, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if n != seen[object] {
			t.Errorf("object %d: event %d comes after %d", object, n, seen[object]-1)
		}
		seen[object] = n + 1
	}
	for object, n := range seen {
		if n != sent[object] {
			t.Errorf("object %d: %d events were handled, %d sent", object, n, sent[object])
		}
	}
}

// A stopped process is reported as wedged first, and gets no more events.
func TestWedged(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := start(t, spec("echo"), host.Options{Logger: log.logger(),
		HealthInterval: 50 * time.Millisecond, HealthTimeout: 5 * time.Second, Backoff: host.Backoff{Min: time.Millisecond}})
	ready(t, h)
	pid := h.Status().PID
	stop(t, pid)
	waitFor(t, "wedged", func() bool { return h.Status().State == host.Wedged })
	if got := h.Status(); got.Reason != "a health check had no answer within 5s" || got.PID != pid {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if h.Ready(ctx) == nil {
		t.Error("it is said to take events")
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "running", func() bool { return h.Status().State == host.Running })
	if got := h.Status(); got.PID != pid || got.Restarts != 0 || got.Reason != "" {
		t.Errorf("%+v", got)
	}
	for _, line := range []string{"handler is wedged", "handler answers again"} {
		if log.count(line) != 1 {
			t.Errorf("%q is not in the log once: %q", line, log.lines())
		}
	}
}

// The status shows a reload while it is under way.
func TestReloadInStatus(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{StartTimeout: time.Minute})
	ready(t, h)
	if s := h.Status(); !s.Reloading.IsZero() {
		t.Errorf("before it: %v", s.Reloading)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- h.Reload(ctx, spec("silent")) }()
	waitFor(t, "the reload", func() bool { return !h.Status().Reloading.Before(began) })
	if s := h.Status(); s.State != host.Running || s.PID == 0 {
		t.Errorf("meanwhile: %+v", s)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if s := h.Status(); !s.Reloading.IsZero() {
		t.Errorf("after it: %v", s.Reloading)
	}
}
