package source

import (
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Consumer takes what one informer sees. Calls for one informer never overlap and are in the
// server's order. The informer waits while a call runs, so calls must not block for long. They must
// not call Visit of the same informer, or Stop it. A panic is counted, and the step counts as
// taken.
type Consumer interface {
	// Take takes one step. Whoever records steps records all of a step at once.
	Take(Step)
	// CaughtUp is called once, between two steps: the consumer has been told all that the server
	// had when the informer began, or that the cluster does not serve the resource. known yields
	// the objects that exist, each as the cache keeps it now; it is valid until CaughtUp returns.
	CaughtUp(known iter.Seq[*object.Object])
}

// Step is one step of an informer: a change of one object, a move of its position, or both.
type Step struct {
	// Delta is the change. Its Object is nil if the step only moves the position.
	Delta delta.Delta
	// Tree is Delta.Object decoded to at least the informer's view (see Informer.Keep), or nil
	// where that was not at hand. It is read-only, and its memory is reused after Take returns.
	Tree any
	// Saved is set if another run saved only this part of the object (see Saved.Partial) and the
	// object came back or is gone. If it came back, Delta is Synced, whether or not the
	// resourceVersion changed. If it is gone, Delta is Deleted and Delta.Object is Saved.
	Saved *object.Object
	// Resync is the interval of the resync round that the step belongs to: the step is meant for
	// rules with that interval and is never recorded. 0 means the step is for all rules.
	Resync time.Duration
	// Moved reports whether Position is set.
	Moved bool
	// Position is the resourceVersion from which another run can go on after this step. It is empty
	// while there is none: a list is being told, and another run has to list too.
	Position string
}

// Consume sets the consumer, and the intervals at which it takes every object as Synced. An
// interval below a second counts as a second; 0 is none. Consume is called at most once, before the
// informer runs. Without a consumer, or with a nil one, the informer only keeps its cache.
func (i *Informer) Consume(c Consumer, resync ...time.Duration) {
	i.feed.consume(c, resync)
}

// Restore makes the informer go on from what another run saved: its consumer knows these objects,
// and takes only what has changed since. Restore is called at most once, before the informer runs.
//
// The informer then follows the server from the saved resourceVersion. Where that is not possible
// (the server has no history that far back, or does not know that resourceVersion yet) it compares
// a list with what was saved, and tells additions, updates with the old state, and deletions with
// the last.
func (i *Informer) Restore(saved Saved) {
	i.feed.restore(saved)
	if len(saved.Objects) > 0 || saved.ResourceVersion != "" {
		saved.Objects = slices.Clone(saved.Objects)
		i.saved = &saved
	}
}

// Visit calls f between two steps, with the objects that the consumer knows of. known is valid
// until f returns. f must not call Visit, and a consumer must not either.
func (i *Informer) Visit(f func(known iter.Seq[*object.Object])) { i.feed.visit(f) }
