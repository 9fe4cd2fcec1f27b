package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// echo is for how long further signals are taken for the first one: timeout(1) and others signal a process and then its
// group.
const echo = 100 * time.Millisecond

// WithSignals makes a context that ends with the first SIGINT or SIGTERM; a second one ends the process at once, but for
// last, which may be nil. Handler processes notice and end as well. stop gives the signals back.
func WithSignals(ctx context.Context, last func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2) // two signals count; more are dropped
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped := make(chan struct{})
	go func() {
		for first := (time.Time{}); ; {
			select {
			case <-signals:
			case <-stopped:
				return
			}
			switch {
			case first.IsZero():
				first = time.Now()
				cancel()
			case time.Since(first) > echo:
				fmt.Fprintln(os.Stderr, "informd: second signal, ending at once")
				if last != nil {
					last()
				}
				os.Exit(ExitFailed)
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(stopped)
		cancel()
	})
}
