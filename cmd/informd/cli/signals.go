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

// echo is how long further signals count as the first one: timeout(1), for one, signals a process
// and then its group.
const echo = 100 * time.Millisecond

// WithSignals returns a context that ends with the first SIGINT or SIGTERM. A second one calls
// last, which may be nil, and ends the process with ExitFailed. The caller must call stop, after
// which signals have their default effect again.
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
