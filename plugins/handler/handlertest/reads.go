package handlertest

import (
	"context"
	"errors"
	"strings"

	"github.com/informd/informd/plugins/handler"
)

// hasCache tells whether there is anything to read. It says so if not.
func (t *trial) hasCache() bool {
	switch {
	case t.Remote != nil:
		t.result.NotChecked = "handlers that run elsewhere have no cache to read"
	case len(t.cache) == 0:
		t.result.NotChecked = "there is no cache to read (handlertest.Options.Cache, informd handler check --cache)"
	default:
		return true
	}
	return false
}

// reads: a handler that asks for what there is gets it. What it is refused it will not get from informd either: a source or an
// index that is called otherwise, a request that makes no sense.
func (t *trial) reads(ctx context.Context) {
	if !t.hasCache() {
		return
	}
	t.run(ctx, func(h runner) {
		if !t.wantDone(ctx, h, "an event", t.Event(1)) {
			return
		}
		switch st := h.Status(); {
		case st.Refused > 0:
			t.fail("%d of its %d calls to read the cache were refused", st.Refused, st.Reads)
		case st.Reads == 0:
			t.result.NotChecked = "it read nothing at this event"
		}
	})
}

// readsNothing: sources are not there yet when informd starts, or are not served by the cluster for a time.
func (t *trial) readsNothing(ctx context.Context) {
	if !t.hasCache() {
		return
	}
	o := t.options()
	o.Cache = nil
	t.supervise(ctx, o, func(h runner, _ context.CancelFunc) {
		for n := range 4 {
			t.wantAnswer(ctx, h, "an event while the cache cannot be read", t.Event(n))
		}
		switch st := h.Status(); {
		case st.Restarts > 0:
			t.fail("it went away and was started again, %d times", st.Restarts)
		case st.Reads == 0:
			t.result.NotChecked = "it read nothing at these events"
		}
	})
}

// actions: what a handler asks informd to do in the cluster makes sense, whoever allows it.
func (t *trial) actions(ctx context.Context) {
	t.run(ctx, func(h runner) {
		asked := false
		for n, kind := range []string{handler.Updated, handler.Added, handler.Synced, handler.Deleted} {
			ev := t.Event(n)
			if ev.Event != kind {
				ev.Event, ev.Old = kind, nil
			}
			answer, err := t.answer(ctx, h, ev)
			if err != nil && impossible(err) {
				asked = true
				t.fail("an event %s: %v", kind, err)
			}
			for i, action := range answer.Actions {
				asked = true
				if err := action.Validate(); err != nil {
					t.fail("an event %s: action %d, %s: %v", kind, i+1, action.Verb, err)
				}
			}
		}
		if !asked {
			t.result.NotChecked = "it asked for none at these events"
		}
	})
}

// impossible tells whether an error is about an answer that the host made nothing of.
func impossible(err error) bool {
	said := err.Error()
	return errors.Is(err, handler.ErrReject) &&
		(strings.Contains(said, "actions; at most") || strings.Contains(said, "of the answer is of a kind that this informd does not know"))
}
