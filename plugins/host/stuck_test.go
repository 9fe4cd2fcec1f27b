package host

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/plugins/host/session"
)

// A start that hangs in a call of the file system, which nothing can interrupt, shows in the status
// and does not keep the daemon from stopping. A process that comes of it in the end is ended.
func TestStartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, launches := make(chan struct{}), new(atomic.Int32)
		l := &life{lasts: time.Hour, gone: make(chan struct{})}
		h := newHost(Spec{Name: "h"}, Options{}, func(_ context.Context, spec Spec, opts Options, log *slog.Logger) (*session.Session, error) {
			launches.Add(1)
			<-answers
			return session.Begin(context.Background(), l, opts.terms(spec), false, log)
		})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = h.Run(ctx) }()
		time.Sleep(time.Minute)
		if s := h.Status(); s.State != Starting || !strings.Contains(s.Reason, mayBeStuck) {
			t.Errorf("after a minute: %+v", s)
		}
		cancelled := time.Now()
		cancel()
		<-ended
		if took := time.Since(cancelled); took != launchGrace {
			t.Errorf("Run returned after %v, want %v", took, launchGrace)
		}
		if n := launches.Load(); n != 1 {
			t.Errorf("%d launches, want no other beside the one that hangs", n)
		}
		close(answers)
		<-l.gone
	})
}
