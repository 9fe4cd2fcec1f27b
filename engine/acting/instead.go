package acting

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Virtual takes the place of the cluster where there is none. Its methods are called one at a time.
type Virtual interface {
	// Perform gets the actions of a handler's answer. The handler "" is a rule itself: then it gets
	// those that an attempt has tried.
	Perform(handler string, ev *handler.Event, actions []handler.Action)
	// Try says what comes of one of a rule's own actions. An error is as one of
	// [action.Sequence.One], but does not name the action.
	Try(ev *handler.Event, a handler.Action) error
	// Exists reports whether a source object exists.
	Exists(resource schema.GroupVersionResource, key delta.Key) bool
	// Marked returns what rules have applied, in this run and before.
	Marked() *action.Marked
}

// replace has v take the place of the cluster.
func (a *Acting) replace(v Virtual) {
	a.begin = func(_ context.Context, by action.By, ev *handler.Event, _ func() bool) sequence {
		return &instead{virtual: v, by: by, event: ev}
	}
	a.exists = func(
		_ context.Context, resource schema.GroupVersionResource, key delta.Key,
	) (bool, error) {
		return v.Exists(resource, key), nil
	}
}

// instead implements sequence where there is no cluster. Its methods must not be called at the same
// time.
type instead struct {
	virtual Virtual
	by      action.By
	event   *handler.Event
	tried   []action.Request
	pruned  []handler.Action
}

// One implements sequence.
func (i *instead) One(ctx context.Context, r action.Request) (action.Ended, error) {
	if r.Number > 0 { // it is no deletion of a prune
		i.tried = append(i.tried, r)
	}
	return i.virtual.Marked().One(ctx, i.by, r, func() error {
		return i.virtual.Try(i.event, r.Action)
	})
}

// BeginPrune implements sequence.
func (i *instead) BeginPrune(int) (did, end func()) { return func() {}, func() {} }

// Prune implements sequence.
func (i *instead) Prune(
	_ context.Context, resource schema.GroupVersionResource, labelSelector string,
	keeps func(resource schema.GroupVersionResource, key delta.Key) bool,
) (action.Ended, error) {
	i.pruned = append(i.pruned, action.Prune(resource, labelSelector))
	i.virtual.Marked().Prune(i.by, resource, labelSelector, keeps)
	return action.Ended{}, nil
}

// end passes on what the attempt has tried, in the order of the actions.
func (i *instead) end() {
	slices.SortStableFunc(i.tried, func(a, b action.Request) int {
		return cmp.Compare(a.Number, b.Number)
	})
	all := make([]handler.Action, 0, len(i.tried)+len(i.pruned))
	for _, r := range i.tried {
		all = append(all, r.Action)
	}
	i.virtual.Perform(i.by.Handler, i.event, append(all, i.pruned...))
}

// atOnce returns how many requests a wave has under way.
func (o *Options) atOnce() int {
	if o.Virtual != nil {
		return 1
	}
	return maxAtOnce
}
