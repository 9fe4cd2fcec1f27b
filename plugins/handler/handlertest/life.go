package handlertest

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/informd/informd/plugins/handlerpb"
)

// explains: without the cookie it was not informd that started the handler.
func (t *trial) explains(context.Context) {
	p, err := t.start(nil)
	if err != nil {
		t.fail("start: %v", err)
		return
	}
	exited := p.exitsWithin(startPatience)
	_ = p.stdin.Close()
	switch {
	case !exited:
		t.fail("without %s in its environment it does not exit", handlerpb.CookieKey)
	case p.cmd.ProcessState.Success():
		t.fail("without %s in its environment it exits with status 0, as if its work were done",
			handlerpb.CookieKey)
	case len(t.logged.last()) == 0 && p.stdout.text() == "":
		t.fail("without %s in its environment it exits without a word", handlerpb.CookieKey)
	}
}

// twice: when informd takes up a new binary or config, the old process and the new one run side by
// side for a moment.
func (t *trial) twice(ctx context.Context) {
	t.run(ctx, func(one *keeper) {
		t.run(ctx, func(other *keeper) {
			t.wantDone(ctx, one, "an event, to the first process", t.Event(1))
			t.wantDone(ctx, other, "an event, to the second process", t.Event(2))
		})
		t.wantDone(ctx, one, "an event, to the first process after the second's end", t.Event(3))
	})
}

// killed: a process that is killed leaves nothing behind, such as a lock, that keeps the next one
// from its work.
func (t *trial) killed(ctx context.Context) {
	t.keep(ctx, t.newCache(), func(k *keeper) {
		s, err := k.current(ctx)
		if err != nil {
			t.fail("it is not ready: %v", err)
			return
		}
		inParallel(16, func(n int) {
			if n == 8 {
				_ = syscall.Kill(s.p.cmd.Process.Pid, syscall.SIGKILL)
			}
			limited, cancel := context.WithTimeout(ctx, t.Timeout)
			defer cancel()
			_, _ = s.handle(limited, t.Event(n)) // lost, or answered just before
		})
		<-s.p.exited
		<-s.ended
		if _, err := k.current(ctx); err != nil {
			t.fail("after it was killed it cannot be started again: %v", err)
			return
		}
		for n := range 16 {
			ev := t.Event(n)
			ev.Attempt = 2
			t.wantDone(ctx, k, fmt.Sprintf("event %d of 16, sent again", n+1), ev)
		}
	})
}

// ends: closing standard input and go-plugin's Shutdown, or SIGTERM, end the process. SIGKILL would
// come later than the check waits.
func (t *trial) ends(ctx context.Context) {
	grace := 2 * t.patience // SIGTERM comes after half of it, SIGKILL after all
	limit := grace - t.patience/2
	t.keep(ctx, t.newCache(), func(k *keeper) {
		t.wantDone(ctx, k, "an event", t.Event(1))
		began := time.Now()
		if exited := k.end(grace); !exited || time.Since(began) > limit {
			t.fail("it did not end within %v of its drain, by itself or at SIGTERM", limit)
		}
	})
}

// endsWithHost: when informd is killed, the pipe on standard input ends.
func (t *trial) endsWithHost(ctx context.Context) {
	t.byHand(ctx, func(_ context.Context, p *process) {
		_ = p.stdin.Close()
		if !p.exitsWithin(t.patience) {
			t.fail("it lives on, %v after its standard input ended", t.patience)
		}
	})
}

// signals: a terminal or a service manager may send them to everybody, but informd decides.
func (t *trial) signals(ctx context.Context) {
	t.onStream(ctx, func(ctx context.Context, p *process, stream handlerpb.Handler_DeliverClient) {
		for i, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.fail("%v: %v", signal, err)
			}
			select {
			case <-p.exited:
			case <-time.After(signalled):
			}
			seq := uint64(i + 1)
			events := []*handlerpb.Event{t.wire(t.Event(1), seq)}
			t.send(stream, &handlerpb.DeliverRequest{Events: events})
			t.wantAnswered(stream, fmt.Sprintf("an event after the signal %q", signal), seq)
		}
		_ = stream.CloseSend()
		t.drain(ctx, p)
	})
}

// signalled is how long a process that a signal ends has for that.
const signalled = 500 * time.Millisecond
