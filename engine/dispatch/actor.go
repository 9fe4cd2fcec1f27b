package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Actor carries out actions. It is safe for concurrent use, and changes no event.
type Actor interface {
	// Check reports whether all of the actions may be carried out, before any is. The dispatcher treats
	// its error like a handler's: one that wraps handler.ErrReject makes a dead letter.
	Check(ev *handler.Event, actions []handler.Action) error
	// Do carries the actions out in order, up to the first that fails. A repeat has the same event with
	// a higher attempt, and the same actions, also after a restart. The dispatcher treats an error like
	// a handler's. After one that wraps ErrStale the handler is asked again.
	Do(ctx context.Context, ev *handler.Event, actions []handler.Action) error
	// Delay returns how long an event waits before it is handed over for the first time. Changes of its
	// object that come meanwhile are merged with it.
	Delay(ctx context.Context, ev *handler.Event) time.Duration
}

// ErrStale is wrapped by errors of Actor.Do about actions that cannot be carried out because the object
// has changed since they were made.
var ErrStale = errors.New("made of an older state")

// Own knows which changes a rule made itself. A watch event may arrive before the response to the write
// that caused it: for that time nobody can tell. Own is safe for concurrent use and quick. It is called
// with the lane's queue locked, and must not call the lane.
type Own interface {
	// Mine reports whether the rule made a change of an object. version is that of the match.
	Mine(key delta.Key, version string) bool
	// Begun returns how many writes have begun, ever, by whichever rule.
	Begun() uint64
	// Writing reports whether one of the first so many writes is the rule's, to the object, and under
	// way: later ones cannot have made a change that is there already. A write's version is Mine before
	// the write ends.
	Writing(key delta.Key, first uint64) bool
}
