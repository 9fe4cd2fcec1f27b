package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/state/steps"
	"github.com/informd/informd/plugins/handler"
)

// openMarks opens the marks of a state directory, which is open. It returns nil if there is none, or
// if nothing can be noted.
func openMarks(stateDir string, hasState bool, log *slog.Logger) *steps.Marks {
	if !hasState {
		return nil
	}
	dir, err := filepath.Abs(stateDir)
	if err == nil {
		var marks *steps.Marks
		if marks, err = steps.Open(dir, time.Now()); err == nil {
			return marks
		}
	}
	log.Info("informd cannot note which change it evaluates: if a change makes informd crash again "+
		"and again, informd does not set it aside", "reason", err)
	return nil
}

// openState opens the state directory that the flags ask for. The store is nil if they ask for
// none. A dry run has none: it must not change what a real run will deliver.
func openState(
	flags runFlags, host string, log *slog.Logger) (dir string, store *state.Store, err error) {
	dir = flags.stateDir
	if dir == "" && !flags.dryRun {
		if dir, err = locate.DefaultStateDir(host); err != nil {
			log.Warn("keeping no state over a restart", "reason", err)
			dir = locate.NoState
		}
	}
	if dir == locate.NoState || flags.dryRun {
		return locate.NoState, nil, nil
	}
	// The status names the directory to somebody in another one.
	whole, err := filepath.Abs(dir)
	if err != nil {
		whole = dir
	}
	// The store tolerates a directory that cannot be looked into.
	isReplica, err := exists(whole, raftName)
	if err == nil {
		err = cutShort(whole)
	}
	if err != nil && !isUnreadable(err) {
		return "", nil, err
	}
	if isReplica {
		return "", nil, fmt.Errorf("%s belongs to one of several replicas: give --name, --peers and "+
			"--peer-tls. To go back to one informd, stop all of them, and remove %s from the "+
			"directory of the one whose state is to be kept", dir, raftName)
	}
	store, err = state.Open(whole, state.Options{
		Logger: log, Version: flags.version, CatchCrashes: true, SetAside: flags.setStateAside,
	})
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		return "", nil, fmt.Errorf("%w with --state-dir", locked)
	}
	if newer, ok := errors.AsType[*state.VersionError](err); ok {
		return "", nil, fmt.Errorf("%w. To begin without it, add --set-state-aside: rules then "+
			"receive all objects as synced, and pauses, dead letters and waiting events are gone, "+
			"until you move the state back", newer)
	}
	return dir, store, err
}

// aloneTerm is the term of an informd without replicas that continues with their state. It leads as
// the first one in its generation, and nobody leads after it there. It is not 0, so that a handler
// needs to make no difference between a field that is 0 and one that is missing.
const aloneTerm = 1

// enterEpoch returns the epoch in which this informd writes a state. cluster is the id of its group of
// replicas, or "" if it has none. The epoch is zero if replicas never had the state.
func enterEpoch(store *state.Store, cluster string, term uint64) (handler.Epoch, error) {
	g, err := store.EnterGeneration(cluster)
	if err != nil || g == (state.Generation{}) {
		return handler.Epoch{}, err
	}
	return handler.Epoch{Cluster: g.Cluster, Generation: g.Number, Term: term}, nil
}

// enterAlone is enterEpoch for an informd without replicas. store is nil if it keeps no state.
func enterAlone(store *state.Store, log *slog.Logger) (handler.Epoch, error) {
	if store == nil {
		return handler.Epoch{}, nil
	}
	epoch, err := enterEpoch(store, "", aloneTerm)
	if errors.Is(err, state.ErrSetAside) { // the store has logged why, and is empty now
		return handler.Epoch{}, nil
	}
	if err == nil && !epoch.IsZero() {
		log.Info("this informd continues without replicas, with the state that they had",
			"epoch", epoch.String())
	}
	return epoch, err
}

// isUnreadable reports whether err says that a file or directory cannot be looked into.
func isUnreadable(err error) bool { return errors.As(err, new(*fs.PathError)) }
