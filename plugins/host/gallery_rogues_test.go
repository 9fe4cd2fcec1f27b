//go:build linux

package host_test

import (
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/plugins/host"
)

// rogues are the gallery.
func rogues() []rogue {
	return []rogue{
		// Rogues that crash.
		{does: "crashes on start", mode: "exits", acts: restarts(3)},
		{does: "crashes when it is up", mode: "crash-ready", acts: restarts(3)},
		{does: "crashes on the fiftieth event", mode: "crash-nth", acts: func(t *testing.T, s *scene) {
			restarts(3)(t, s)
			s.waitFor(t, "events between the crashes", func() bool { return s.results.answered() >= 8 && s.results.said("it exited with status 3") })
		}},
		{does: "crashes with an excuse", mode: "crash-says", acts: func(t *testing.T, s *scene) {
			restarts(3)(t, s)
			s.waitFor(t, "what it said", func() bool { return strings.Join(s.host.Status().LastLog, "|") == "out of luck" })
			if n := s.log.count("it is a pity"); n < 3 {
				t.Errorf("of three regrets, %d were heard", n)
			}
		}},
		{does: "is ended by a signal", mode: "segfault", acts: func(t *testing.T, s *scene) {
			restarts(3)(t, s)
			s.waitFor(t, "the reason", func() bool { return s.results.said("segmentation fault") || s.results.said("status 2") })
		}},

		// Rogues that hang.
		{does: "is silent", mode: "silent", opts: func(_ *testing.T, o *host.Options) { o.StartTimeout = 300 * time.Millisecond }, acts: failures(2)},
		{does: "hangs in describe", mode: "hang-describe", opts: func(_ *testing.T, o *host.Options) { o.DescribeTimeout = 50 * time.Millisecond }, acts: failures(2)},
		{does: "hangs in configure", mode: "hang-configure", opts: func(_ *testing.T, o *host.Options) { o.ConfigureTimeout = 50 * time.Millisecond }, acts: failures(2)},
		{does: "hangs in health", mode: "hang-health", opts: impatient, acts: wedged},
		{does: "hangs in deliver", mode: "deaf", spec: timeLimit(50 * time.Millisecond), opts: impatient, acts: func(t *testing.T, s *scene) {
			s.waitFor(t, "time limits that passed", func() bool { return s.results.said("no answer within the time limit of 50ms") })
		}},
		{does: "answers nothing", mode: "never", spec: timeLimit(20 * time.Millisecond), acts: restarts(1)},
		{does: "hangs in drain", mode: "hang-drain", acts: running},
		{does: "will not end", mode: "will-not-end", acts: running},
		{does: "stops itself", mode: "stops-itself", opts: impatient, acts: wedged},

		// Rogues that lie.
		{does: "answers twice", mode: "twice", acts: strays(20)},
		{does: "acknowledges what it was not sent", mode: "strays", acts: strays(1_000_000)},
		{does: "acknowledges without end", mode: "chatter", acts: strays(20)},
		{does: "claims absurd windows", mode: "boundless", spec: timeLimit(50 * time.Millisecond), acts: func(t *testing.T, s *scene) {
			s.waitFor(t, "its end", func() bool {
				if n := s.host.Status().InFlight; n > 8 {
					t.Fatalf("%d events are with it; the operator allows 4, and informd probes with as many", n)
				}
				return s.host.Status().Restarts > 0
			})
		}},
		{does: "answers after the time limit", mode: "late", spec: timeLimit(30 * time.Millisecond), acts: func(t *testing.T, s *scene) {
			s.waitFor(t, "late answers", func() bool { return s.host.Status().Counts.Late >= 5 })
		}},

		{does: "has the daemon speak to another in its place", mode: "impostor", spec: func(t *testing.T, s *host.Spec) {
			dir := shortDir(t)
			victim := start(t, spec("notls"), host.Options{RunDir: dir, HealthInterval: 20 * time.Millisecond})
			ready(t, victim)
			sockets, err := filepath.Glob(dir + "/plugin-dir*/plugin*")
			if err != nil || len(sockets) != 1 {
				t.Fatal(sockets, err)
			}
			s.Env = append(s.Env, "VICTIM="+sockets[0])
			t.Cleanup(func() {
				if st := victim.Status(); st.Restarts > 0 || st.State != host.Running {
					t.Errorf("the victim: %+v", st)
				}
			})
		}, acts: failures(2)},

		// Rogues that do too much.
		{does: "answers with 100 MB", mode: "hundred-mb", acts: restarts(1)},
		{does: "describes itself with 100 MB", mode: "hundred-mb-schema", acts: failures(1)},
		{does: "announces connections without end", mode: "broker", acts: bounded(func(t *testing.T, s *scene) {
			s.waitFor(t, "many events", func() bool { return s.results.answered() >= 1000 })
		}, 200)},
		{does: "sends its output in large pieces", mode: "stdio", acts: bounded(func(t *testing.T, s *scene) {
			s.waitFor(t, "dropped lines", func() bool { return s.log.count("handler log lines dropped") >= 2 })
			running(t, s)
		}, 200)},
		{does: "ends its stream at great length", mode: "trailers", acts: restarts(2), after: func(t *testing.T, s *scene) {
			if reason := s.host.Status().Reason; len(reason) > 4096 {
				t.Errorf("a reason of %d bytes", len(reason))
			}
		}},
		{does: "pings without end", mode: "pings", opts: func(_ *testing.T, o *host.Options) {
			o.StartTimeout, o.DescribeTimeout = time.Second, 500*time.Millisecond
		}, acts: bounded(failures(2), 200)},
		{does: "floods its output", mode: "floods", acts: func(t *testing.T, s *scene) {
			s.waitFor(t, "dropped lines", func() bool { return s.log.count("handler log lines dropped") >= 2 })
			s.waitFor(t, "events that are done all the same", func() bool { return s.results.answered() >= 20 })
			if n := s.host.Status().Restarts; n > 0 {
				t.Errorf("%d restarts: %+v", n, s.host.Status())
			}
		}, after: func(t *testing.T, s *scene) {
			for _, line := range s.log.lines() {
				if len(line) > 10<<10 || strings.ContainsAny(line, "\n\r\x1b\x00") {
					t.Fatalf("a line of %d bytes, unfit for a log: %.100q", len(line), line)
				}
			}
		}},
	}
}

// restarts returns when the rogue was restarted that many times.
func restarts(n int) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		s.waitFor(t, "restarts", func() bool { return s.host.Status().Restarts >= n })
	}
}

// failures returns when the rogue has failed that many times without ever running.
func failures(n int) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		restarts(n)(t, s)
		if s.log.count("handler ready") > 0 {
			t.Error("it ran")
		}
	}
}

// running returns when the rogue has answered a few events.
func running(t *testing.T, s *scene) {
	s.waitFor(t, "events", func() bool { return s.results.answered() >= 10 })
}

// wedged returns when the rogue was found wedged, and was ended.
func wedged(t *testing.T, s *scene) {
	s.waitFor(t, "the state", func() bool { return s.log.count("handler is wedged") >= 1 })
	s.waitFor(t, "its end", func() bool { return s.host.Status().Restarts >= 1 })
}

// bounded runs acts, and checks meanwhile that the daemon has neither many more goroutines nor much
// more memory.
func bounded(acts func(*testing.T, *scene), goroutines int) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		before := takeStock()
		done := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			var m runtime.MemStats
			for {
				runtime.ReadMemStats(&m)
				if n := runtime.NumGoroutine(); n > before.goroutines+goroutines || m.HeapAlloc > before.heap+200<<20 {
					t.Errorf("%d goroutines, %d MiB of memory; before %d, %d", n, m.HeapAlloc>>20, before.goroutines, before.heap>>20)
					return
				}
				select {
				case <-done:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
		defer watch.Wait()
		defer close(done)
		acts(t, s)
	}
}

func strays(n uint64) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		s.waitFor(t, "answers that nobody asked for", func() bool { return s.host.Status().Counts.Unknown >= n })
		if st := s.host.Status(); st.Restarts > 0 {
			t.Errorf("%+v", st)
		}
	}
}

func (s *scene) waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.results.mu.Lock()
			defer s.results.mu.Unlock()
			t.Fatalf("waited in vain: %s; %+v; %v", what, s.host.Status(), s.results.errs)
		}
	}
}

func timeLimit(d time.Duration) func(*testing.T, *host.Spec) {
	return func(_ *testing.T, s *host.Spec) { s.Timeout, s.Concurrency = d, 4 }
}

// impatient makes health checks frequent, so that a hang shows soon.
func impatient(_ *testing.T, o *host.Options) {
	o.HealthInterval, o.HealthTimeout = 20*time.Millisecond, 300*time.Millisecond
}
