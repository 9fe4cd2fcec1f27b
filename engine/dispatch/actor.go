package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Actor carries out the actions that answers ask for. It is safe for concurrent use; no event is changed.
type Actor interface {
	// Check tells whether all of the actions may be carried out, before any is. Its error counts as if the handler had answered
	// with it; one that wraps handler.ErrReject makes a dead letter.
	Check(ev *handler.Event, actions []handler.Action) error
	// Do carries them out, in order, as far as that goes. A repeat has the same event, with a higher attempt, and the same
	// actions, also after a restart. An error counts as if the handler had answered with it; if it wraps ErrStale the handler is
	// asked again.
	Do(ctx context.Context, ev *handler.Event, actions []handler.Action) error
	// Delay tells how long to wait with an event, before it is handed over for the first time. What comes of its object meanwhile
	// is merged with it as ever.
	Delay(ctx context.Context, ev *handler.Event) time.Duration
}

// ErrStale is what errors of Actor.Do wrap when actions cannot be carried out, because what they were made of is not the state of
// things any more.
var ErrStale = errors.New("made of an older state")

// Own tells which changes a rule made itself. Watch events overtake the responses of the writes that they are of, so there is a
// time in which that cannot be told. It is safe for concurrent use and quick, and must not call the lane.
type Own interface {
	// Mine tells whether a change of an object, by the Version of its match, is the rule's own.
	Mine(key delta.Key, version string) bool
	// Begun is how many writes have begun, ever.
	Begun() uint64
	// Writing tells whether one of the first so many of them is under way that is the rule's, to an object: what came before others
	// began is none of theirs. A write's version is Mine before it is not under way any more.
	Writing(key delta.Key, first uint64) bool
}
