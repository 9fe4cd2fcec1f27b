package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// reportHangups logs each SIGHUP until ctx ends, and nothing else comes of it. By default the signal
// would end the daemon without a drain. Whoever sends it expects a reload.
func reportHangups(ctx context.Context, log *slog.Logger) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) { // as nohup has it
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
				log.Warn("SIGHUP changes nothing: informd does not read its manifests again; " +
					"restart it, or use informd handler reload for a handler")
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { signal.Stop(hangups) }
}
