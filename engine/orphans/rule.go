// Package orphans prunes what nobody would prune otherwise: what a rule with prune has applied for
// objects that went while nobody looked ([Orphans]), and for objects of a resource that was
// withdrawn, later than their deletion ([Spared]).
package orphans

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/targets"
)

// Rule is a rule with prune at work. Its functions are safe for concurrent use.
type Rule struct {
	Plan   *plan.Rule
	ID     string // by which the state finds what it has of the rule
	Recipe *prepare.Recipe
	View   *source.Source   // its own source
	Others []*source.Source // those that it looks into
	Lane   func() Lane
	// IsHeld reports whether the rule still waits for sources, or catches up.
	IsHeld func() bool
	// Depart has the rule learn that objects which do not exist in the cluster are deleted. Only
	// their names are known. It returns those of them that its informers do not have.
	Depart func(ctx context.Context, gone []delta.Key) (departed map[delta.Key]bool)
	// Offer offers the lane to prune for an object that was spared, unless the rule selects it by
	// now, and calls done in the same cut. If the rule is gone, it does nothing and returns false.
	Offer func(key delta.Key, done func()) bool
	// IsGone reports whether the rule is gone: nothing of it is recorded any more.
	IsGone func() bool
	// Claim notes that the rule has applied a target for an object, unless it has an owner. It
	// returns false if there is no room for that. If hasActed, which it calls afterwards, returns
	// true, the object may not ask for the target any more: its actions are performed again.
	Claim func(of delta.Key, at targets.Target, hasActed func() bool) bool
	// IsWhole notes that everything that the rule has applied has an owner.
	IsWhole func()
	Cluster
}

// Lane is what the package needs of a rule's [dispatch.Lane].
type Lane interface {
	Stats() queue.Stats
	Paused() bool
	Holds(delta.Key) bool // something of the object waits, or is in flight
	Ended() uint64        // how many deliveries have ended
}

// Cluster answers what the caches do not know. [action.Executor] implements it.
type Cluster interface {
	Exists(context.Context, schema.GroupVersionResource, delta.Key) (bool, error)
	Applied(
		ctx context.Context, by action.By, resource schema.GroupVersionResource, labelSelector string,
	) ([]action.Applied, error)
}

// informerOf returns the informer of a source that watches the key's namespace, or any if none
// does.
func informerOf(view *source.Source, key delta.Key) *source.Informer {
	informers := view.Informers()
	at := slices.IndexFunc(informers, func(i *source.Informer) bool {
		of := i.Selection().Namespace
		return of == "" || of == key.Namespace
	})
	return informers[max(at, 0)]
}

// isIdle reports whether a lane has nothing to deliver.
func isIdle(l Lane) bool {
	stats := l.Stats()
	return stats.Waiting+stats.Away+stats.InFlight == 0
}
