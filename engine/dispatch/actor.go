package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// Actor performs actions. It is safe for concurrent use, and does not change the event.
type Actor interface {
	// Check reports whether all of the actions are allowed, before any is performed. The dispatcher
	// treats an error like a handler's: if it wraps handler.ErrReject, the event becomes a dead
	// letter.
	Check(ev *handler.Event, actions []handler.Action) error
	// Do performs the actions in order, up to the first that fails. A repeat has the same event
	// with a higher attempt number, and the same actions, also after a restart. The dispatcher
	// treats an error like a handler's. If it wraps ErrStale, the dispatcher asks the handler
	// again.
	Do(ctx context.Context, ev *handler.Event, actions []handler.Action) error
	// Delay returns how long an event waits before its first attempt. The lane merges changes of
	// its object that come meanwhile.
	Delay(ctx context.Context, ev *handler.Event) time.Duration
}

// Witness is implemented by an Actor that knows what actions have changed.
type Witness interface {
	// DoSeen does what Do does, and returns what became of actions that succeeded: Acted, Unchanged
	// or Vanished, or 0 if it does not know.
	DoSeen(
		ctx context.Context, ev *handler.Event, actions []handler.Action,
	) (trail.Verdict, error)
}

// ErrStale is wrapped by errors of Actor.Do about actions that cannot be performed because the
// object has changed since they were made.
var ErrStale = errors.New("decided on an older state")

// Own knows which changes a rule made itself. A watch event may arrive before the response to the
// write that caused it. Until the response comes, nobody knows who made the change. Own is safe for
// concurrent use and quick. Its methods are called with the lane's queue locked, and must not call
// the lane.
type Own interface {
	// Mine reports whether the rule made a change of an object. version comes from the match.
	Mine(key delta.Key, version string) bool
	// Begun returns how many writes of all rules have begun since the start.
	Begun() uint64
	// Writing reports whether the rule is writing to the object, counting only the given number of
	// first writes. Later ones cannot have made a change that is there already. Before a write
	// ends, Mine knows its version.
	Writing(key delta.Key, first uint64) bool
}
