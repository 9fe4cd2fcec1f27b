package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// hangups are the SIGHUPs that the daemon gets. By default the signal would end it without a drain.
type hangups chan os.Signal

// catchHangups catches SIGHUP from now on, until stop is called. One that nobody has dealt with yet
// stands for all that follow it.
func catchHangups() (caught hangups, stop func()) {
	caught = make(hangups, 1)
	if signal.Ignored(syscall.SIGHUP) { // as nohup has it
		return caught, func() {}
	}
	signal.Notify(caught, syscall.SIGHUP)
	return caught, func() { signal.Stop(caught) }
}

// each calls reload for each SIGHUP until ctx ends.
func (h hangups) each(ctx context.Context, reload func()) {
	for {
		select {
		case <-h:
			reload()
		case <-ctx.Done():
			return
		}
	}
}
