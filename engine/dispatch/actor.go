package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/engine/delivery"
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
	// Do performs the actions of a handler's answer in order, up to the first that fails. A repeat
	// has the same event with a higher attempt number, and the same actions, also after a restart.
	// The dispatcher treats an error like a handler's. If it wraps ErrStale, the dispatcher asks the
	// handler again. See also [ErrNotLeading].
	Do(ctx context.Context, ev *handler.Event, actions []handler.Action) error
	// Perform performs a rule's own actions, and returns what became of them: Acted, Unchanged or
	// Vanished, or 0 if it does not know. Those that an earlier attempt at the same event has
	// performed may be left out. The dispatcher treats an error as it does one of Do. See also
	// [Later], [ErrStopped] and [ErrNotLeading].
	Perform(ctx context.Context, own Performance) (trail.Verdict, error)
	// Delay returns how long an event waits before its first attempt. The lane merges changes of
	// its object that come meanwhile.
	Delay(ctx context.Context, ev *handler.Event) time.Duration
}

// Performance is one attempt at a rule's own actions.
type Performance struct {
	// Key is that of the delivery. For a group, its object may be another one than the event's.
	Key   delta.Key
	Event *handler.Event
	Acts  *delivery.Acts
	// Account is that of the lane. It may be nil.
	Account Account
	// Resync is the round of the newest resync since the event, or 0. What was performed before it
	// is performed again.
	Resync int64
	// Stop reports that nothing more should be done for now. The Actor asks before each action. Stop is
	// safe for concurrent use.
	Stop func() bool
	// Rest may be nil. The Actor calls it between actions, from one goroutine. If the attempt has
	// taken long and other rules wait, Rest returns only after they have had their turn.
	Rest func()
}

// Account keeps account of a rule's own actions, over all of their attempts. Its methods must not
// call the lane.
type Account interface {
	// Digest returns the Digest of the Acts that the rule makes. Recorded ones with another digest
	// are made again.
	Digest() uint64
	// Hasten is called before [Lane.RetryNow] ends the wait of an object's delivery.
	Hasten(delta.Key)
	// Ending is called before a delivery of an object ends, outside of cuts. It makes End quick. The
	// delivery may go on all the same.
	Ending(delta.Key)
	// End is called when a delivery of an object is over, within the cut that ends it.
	End(delta.Key)
}

// ErrStopped is wrapped by the error of Actor.Perform if it has stopped because of
// Performance.Stop. That is no failure: the lane goes on where it was as soon as it may.
var ErrStopped = errors.New("stopped")

// ErrStale is wrapped by errors of Actor.Do and Actor.Perform about actions that cannot be
// performed because the object has changed since they were made.
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
