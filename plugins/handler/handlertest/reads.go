package handlertest

import (
	"context"
	"errors"

	"github.com/informd/informd/plugins/handler"
)

// hasCache reports whether there is anything to read; if not, the result says so.
func (t *trial) hasCache() bool {
	switch {
	case t.Remote != nil:
		t.result.NotChecked = "handlers that run elsewhere have no cache to read"
	case len(t.Cache) == 0:
		t.result.NotChecked = "there is no cache to read " +
			"(handlertest.Options.Cache, informd handler check --cache)"
	default:
		return true
	}
	return false
}

// reads: a handler gets what it asks for. What the suite refuses, informd refuses too: a source or
// an index of another name, a request that makes no sense.
func (t *trial) reads(ctx context.Context) {
	if !t.hasCache() {
		return
	}
	cache := t.newCache()
	t.keep(ctx, cache, func(k *keeper) {
		if !t.wantDone(ctx, k, "an event", t.Event(1)) {
			return
		}
		t.wantSteady(k)
		switch calls, refused, why := cache.counts(); {
		case refused > 0:
			t.fail("%d of its %d calls to read the cache were refused: %s", refused, calls, why)
		case calls == 0:
			t.result.NotChecked = "it read nothing at this event"
		}
	})
}

// readsNothing: sources may not be there yet when informd starts, or the cluster may not serve them
// for a time.
func (t *trial) readsNothing(ctx context.Context) {
	if !t.hasCache() {
		return
	}
	cache := &cacheService{} // every call fails
	t.keep(ctx, cache, func(k *keeper) {
		for n := range 4 {
			t.wantAnswer(ctx, k, "an event while the cache cannot be read", t.Event(n))
		}
		t.wantSteady(k)
		if calls, _, _ := cache.counts(); calls == 0 && len(t.result.Problems) == 0 {
			t.result.NotChecked = "it read nothing at these events"
		}
	})
}

// actions: what a handler asks informd to do in the cluster makes sense, whoever allows it.
func (t *trial) actions(ctx context.Context) {
	t.run(ctx, func(k *keeper) {
		asked := false
		kinds := []string{handler.Updated, handler.Added, handler.Synced, handler.Deleted}
		for n, kind := range kinds {
			ev := t.Event(n)
			if ev.Event != kind {
				ev.Event, ev.Old = kind, nil
			}
			answer, err := t.answer(ctx, k, ev)
			if errors.Is(err, errImpossible) {
				asked = true
				t.fail("an event %s: %v", kind, err)
			}
			for i, action := range answer.Actions {
				asked = true
				err := action.Validate()
				if err == nil && t.Allow != nil {
					err = t.Allow(ev, action)
				}
				if err != nil {
					t.fail("an event %s: actions[%d], %s: %v", kind, i, action.Verb, err)
				}
			}
		}
		if !asked {
			t.result.NotChecked = "it asked for none at these events"
		}
	})
}
