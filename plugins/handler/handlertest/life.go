package handlertest

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/informd/informd/plugins/host"
)

// twice: when informd takes up a new binary or config, the old process and the new run side by side for a moment.
func (t *trial) twice(ctx context.Context) {
	t.run(ctx, func(one runner) {
		t.run(ctx, func(other runner) {
			t.wantDone(ctx, one, "an event, to the first process", t.Event(1))
			t.wantDone(ctx, other, "an event, to the second process", t.Event(2))
		})
		t.wantDone(ctx, one, "an event, to the first process after the second's end", t.Event(3))
	})
}

// killed: a process that is killed leaves nothing behind, a lock for instance, that keeps the next one from its work.
func (t *trial) killed(ctx context.Context) {
	o := t.options()
	o.BackoffMin = time.Millisecond
	t.supervise(ctx, o, func(h runner, _ context.CancelFunc) {
		var wg sync.WaitGroup
		for n := range 16 {
			wg.Go(func() { _ = t.handle(ctx, h, t.Event(n)) }) // lost, or answered just before
		}
		pid := h.Status().PID
		if pid > 0 { // else it has gone by itself, which shows below
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		wg.Wait()
		if !t.await(ctx, func() bool { st := h.Status(); return st.State == host.Running && st.PID != pid }) {
			st := h.Status()
			t.fail("after it was killed it is %s, not running again: %s", st.State, st.Reason)
			return
		}
		for n := range 16 {
			ev := t.Event(n)
			ev.Attempt = 2
			t.wantDone(ctx, h, fmt.Sprintf("event %d of 16, sent again", n+1), ev)
		}
	})
}

// await waits for a process to be started, and tried again perhaps.
func (t *trial) await(ctx context.Context, met func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*t.patience/2)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !met() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// ends checks that closing standard input and go-plugin's Shutdown, or SIGTERM, suffice: SIGKILL would come later than
// the check waits.
func (t *trial) ends(ctx context.Context) {
	o := t.options()
	o.StopTimeout = 3 * t.patience // SIGTERM comes after half of it, SIGKILL after all
	limit := o.StopTimeout - t.patience/2
	began := time.Time{}
	t.supervise(ctx, o, func(h runner, stop context.CancelFunc) {
		t.wantDone(ctx, h, "an event", t.Event(1))
		began = time.Now()
		stop()
	})
	if !began.IsZero() && time.Since(began) > limit {
		t.fail("it did not end within %v of its drain, by itself or at SIGTERM", limit)
	}
}
