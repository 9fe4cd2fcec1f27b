package host_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/informd/informd/plugins/host"
)

// A process that is launched before Run is the one that Run begins with. It has accepted its config
// and is healthy by then.
func TestLaunchBeforeRun(t *testing.T) {
	t.Parallel()
	s, _ := journalSpec(t, "1")
	h := host.New(s, patient(host.Options{RunDir: shortDir(t)}))
	if err := h.Launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state := h.Status().State; state != host.Idle {
		t.Errorf("it is %s before it runs", state)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	ready(t, h)
	pid := h.Status().PID
	if _, err := h.Handle(t.Context(), pod("a")); err != nil {
		t.Error(err)
	}
	if now := h.Status(); now.Restarts != 0 || now.PID != pid || now.Handler.Version != "1" {
		t.Errorf("%+v", now)
	}
	cancel()
	<-done
	if !gone(pid) {
		t.Error("the process is left")
	}
}

// A process that cannot be used is not left, and Run then launches another one.
func TestLaunchThatFails(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct {
		says    string
		refuses bool
	}{
		"refuses":  {"token is missing", true},
		"exits":    {"exited with status 3", false},
		"not-well": {"it reports a problem: no disk", false},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			h := host.New(spec(mode), patient(host.Options{RunDir: dir}))
			err := h.Launch(t.Context())
			if err == nil || !strings.Contains(err.Error(), want.says) || host.Refuses(err) != want.refuses {
				t.Errorf("got %v, refuses: %v", err, host.Refuses(err))
			}
			h.Abandon() // there is nothing to abandon
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left in the run directory: %v", left)
			}
		})
	}
}

// Nothing is left of a process that was launched and is not run, whether it is abandoned, or Run
// ends before it begins.
func TestLaunchThatIsNotRun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *host.Host){
		"abandoned": func(h *host.Host) { h.Abandon() },
		"ended": func(h *host.Host) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = h.Run(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			s, _ := journalSpec(t, "1")
			h := host.New(s, patient(host.Options{RunDir: dir}))
			if err := h.Launch(t.Context()); err != nil {
				t.Fatal(err)
			}
			end(h)
			waitFor(t, "nothing is left", func() bool {
				left, err := os.ReadDir(dir)
				return err == nil && len(left) == 0
			})
		})
	}
}
