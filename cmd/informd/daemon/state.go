package daemon

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/engine/state"
)

// openState opens the state directory that run's flags ask for; the store is nil if there is to be none. A dry run has none:
// it must neither take from what is owed nor add to it.
func openState(flags runFlags, host string, log *slog.Logger) (dir string, store *state.Store, err error) {
	dir = flags.stateDir
	if dir == "" && !flags.dryRun {
		if dir, err = locate.DefaultStateDir(host); err != nil {
			log.Warn("nothing is kept over a restart", "reason", err)
			dir = locate.NoState
		}
	}
	if dir == locate.NoState || flags.dryRun {
		return locate.NoState, nil, nil
	}
	store, err = state.Open(dir, state.Options{Logger: log})
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		return "", nil, fmt.Errorf("%w with --state-dir", locked)
	}
	return dir, store, err
}
