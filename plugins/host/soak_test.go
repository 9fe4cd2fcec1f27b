package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/serve"
)

// soakedMode is a handler that exits at its start while the file that SOAKED names exists, and
// otherwise as an event says.
const soakedMode = "soaked"

func init() {
	modes[soakedMode] = func() {
		if _, err := os.Stat(os.Getenv("SOAKED")); err == nil {
			fmt.Fprintln(os.Stderr, "no such database")
			os.Exit(1)
		}
		serve.Main(handler.Func(func(ctx context.Context, ev handler.Event) (handler.Answer, error) {
			switch ev.Name {
			case "exits":
				os.Exit(3)
			case "faults":
				go func() { _ = *(*int)(nil) }() // nobody can recover that
				<-ctx.Done()
			case "leaves-child":
				child := exec.Command("sleep", "86400")
				child.Stderr = os.NewFile(2, "stderr")
				_ = child.Start()
				os.Exit(3)
			}
			return handler.Answer{}, nil
		}))
	}
}

// A handler crashes a thousand times, as fast as it is started, while another one takes a steady
// stream of events. No event of the other one is lost or late, and nothing remains of a crash. Only
// `make soak` runs all thousand.
func TestSoakCrashes(t *testing.T) {
	crashes, pace := 15, 25*time.Millisecond
	if os.Getenv("INFORMD_SOAK") != "" {
		crashes, pace = 1000, 5*time.Millisecond
	}
	dirs := []string{shortDir(t), shortDir(t), shortDir(t)} // sockets of each, temporary files of both
	file := filepath.Join(t.TempDir(), "soaked")
	s := spec("echo")
	s.Timeout = 5 * time.Second // past which an event is late
	well := start(t, s, host.Options{RunDir: dirs[0], TempDir: dirs[2]})
	ready(t, well)
	s = spec(soakedMode)
	s.Env = append(s.Env, "SOAKED="+file)
	s.Timeout = 10 * time.Second
	bad := start(t, s, host.Options{RunDir: dirs[1], TempDir: dirs[2], Backoff: host.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}})
	ready(t, bad)

	stream := newStream(t, well, pace)
	alone := stream.during(time.Second, nil)
	before := hold(t, dirs)
	began := time.Now()
	beside := stream.during(0, func() {
		for n := range crashes {
			crash(t, bad, n, file)
		}
	})
	took := time.Since(began)
	ready(t, bad)
	if got := well.Status().Restarts; got != 0 {
		t.Errorf("the handler that is well was started %d times again", got)
	}
	if got := bad.Status().Restarts; got < crashes {
		t.Errorf("%d restarts of %d crashes", got, crashes)
	}
	var after holding
	waitFor(t, "what crashes leave behind to go", func() bool {
		after = hold(t, dirs)
		return after.within(before)
	})
	t.Logf("%d crashes in %v; the other's answers, alone: %s; beside them: %s", crashes, took.Round(time.Millisecond), alone, beside)
	t.Logf("held before: %+v; after: %+v", before, after)
}

// crash makes a running handler crash once, in one of several ways, and waits until it runs again.
func crash(t *testing.T, h *host.Host, n int, file string) {
	t.Helper()
	ready(t, h)
	before := h.Status()
	names := []string{"exits", "faults", "leaves-child", "is-killed", "exits-at-start"}
	switch name := names[n%len(names)]; name {
	case "is-killed", "exits-at-start":
		if name == "exits-at-start" {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_ = syscall.Kill(before.PID, syscall.SIGKILL) // it is there: nothing else ends it
	default:
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := h.Handle(ctx, pod(name)); err == nil {
			t.Errorf("%s was answered", name)
		}
	}
	waitFor(t, "a crash", func() bool { return h.Status().Restarts > before.Restarts })
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	waitFor(t, "it to run again", func() bool { s := h.Status(); return s.PID != 0 && s.PID != before.PID })
}

// stream submits five events to a host at each tick of its pace, each of another object.
type stream struct {
	t    *testing.T
	h    *host.Host
	pace time.Duration

	mu   sync.Mutex
	took []time.Duration
}

func newStream(t *testing.T, h *host.Host, pace time.Duration) *stream {
	return &stream{t: t, h: h, pace: pace}
}

// during streams events for a time, or until do returns, and returns how long answers took. Each
// event must be answered at its first attempt.
func (s *stream) during(d time.Duration, do func()) string {
	s.took = nil
	stop := make(chan struct{})
	var streaming sync.WaitGroup
	streaming.Go(func() {
		tick := time.NewTicker(s.pace)
		defer tick.Stop()
		for n := 0; ; n += 5 {
			for i := range 5 {
				ev := pod("done-" + strconv.Itoa((n+i)%1000))
				streaming.Add(1)
				sent := time.Now()
				s.h.Submit(context.Background(), &ev, func(_ handler.Answer, err error) {
					defer streaming.Done()
					took := time.Since(sent)
					s.mu.Lock()
					defer s.mu.Unlock()
					if s.took = append(s.took, took); err != nil {
						s.t.Errorf("%s: %v", ev.Name, err)
					}
				})
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	if do != nil {
		do()
	} else {
		time.Sleep(d)
	}
	close(stop)
	streaming.Wait()
	slices.Sort(s.took)
	at := func(q float64) time.Duration { return s.took[int(q*float64(len(s.took)-1))].Round(time.Microsecond) }
	return fmt.Sprintf("of %d: median %v, p99 %v, most %v", len(s.took), at(0.5), at(0.99), at(1))
}

// holding counts what this process holds.
type holding struct {
	goroutines, descriptors, processes, files int
	heap                                      uint64
}

// hold counts what this process holds. Files are counted in dirs.
func hold(t *testing.T, dirs []string) (h holding) {
	t.Helper()
	list := func(dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	h.descriptors = list("/proc/self/fd")
	for _, dir := range dirs {
		h.files += list(dir)
	}
	h.processes = len(below(t, os.Getpid()))
	debug.FreeOSMemory()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	h.heap, h.goroutines = memory.HeapAlloc, runtime.NumGoroutine()
	return h
}

// within reports whether h is at most another count. The heap may be a little larger.
func (h holding) within(other holding) bool {
	return h.goroutines <= other.goroutines && h.descriptors <= other.descriptors && h.processes <= other.processes &&
		h.files <= other.files && h.heap <= other.heap+4<<20
}

// below returns the descendants of a process, including zombies.
func below(t *testing.T, pid int) (all []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have gone
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, child), below(t, child)...)
		}
	}
	return all
}
