package source

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// overhearing notices when one watch of the server is silent; hearing says what follows then. The
// attendant of the watch uses it.
type overhearing struct {
	watch *watching
	inner *stream
	timer *time.Timer // when to look
	found bool        // the last look has found silence
}

func newOverhearing(w *watching, inner *stream) *overhearing {
	h := &overhearing{watch: w, inner: inner}
	w.mu.Lock()
	defer w.mu.Unlock()
	h.timer = time.NewTimer(w.patience())
	return h
}

// patience returns how long the server's watch may be silent. w.mu is held.
func (w *watching) patience() time.Duration {
	switch tuning := w.wire.tuning(); {
	case w.initial:
		return tuning.closing
	case w.isProbe:
		return tuning.proof
	default:
		return tuning.quiet
	}
}

// look ends the watch if it has been silent for too long. It believes that only when it finds it
// twice: the first time informd itself may have stood still, and not have read what came.
func (h *overhearing) look(ctx context.Context) {
	w := h.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	limit, waited := w.patience(), h.inner.waited()
	isEndless := w.initial && !w.changed.IsZero() && time.Since(w.changed) > 2*limit
	switch {
	case waited < limit && !isEndless:
		h.found = false
		h.timer.Reset(limit - waited + limit/64)
	case !h.found && !isEndless:
		h.found = true
		h.timer.Reset(limit / 32)
	default:
		w.silent(h.inner)
	}
}

// doubt opens the watch again as a probe, because another request has shown that it lacks
// something.
func (h *overhearing) doubt(ctx context.Context) {
	w := h.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil && !w.initial && !w.isProbe {
		w.silent(h.inner)
	}
}

// silent ends the server's watch, because nothing comes. w.mu is held.
func (w *watching) silent(inner *stream) {
	i := w.wire.informer
	switch {
	case w.initial:
		if !i.watches.isEndless.Swap(true) {
			i.parent.sayer.warn(i.log, "the API server does not say where the initial events of a "+
				"watch end: listing instead", "", "waited", w.wire.tuning().closing)
		}
		w.cancel()
		return
	case w.isProbe:
		since := "since informd began"
		if last := i.hearing.last(); !last.IsZero() {
			since = "for " + i.parent.clock.Since(last).Round(time.Second).String()
		}
		i.health.doubt(silentWatch, fmt.Sprintf("the watch is silent: nothing has come %s, not even "+
			"the bookmarks of the API server (does a proxy in between hold them back?)", since))
		// The next watch may take another connection, or another of several API servers.
		defer utilnet.CloseIdleConnectionsFor(i.parent.over.watches.Transport)
	}
	w.isProbe = true
	inner.cut()
}

// hear notes that frames have come. w.mu is held.
func (w *watching) hear() {
	w.came = w.wire.informer.hearing.hear()
	w.isProbe = false
	w.wire.informer.health.dispel(silentWatch)
}

// isDue reports whether the server's watch has lasted as long as informd has asked for.
func (w *watching) isDue(inner *stream) bool {
	return inner.lasts > 0 && inner.age() > inner.lasts-time.Second
}

// ended notes that the server has ended its watch when it was due. Everything before has come, so
// that is as good as a bookmark. w.mu is held.
func (w *watching) ended() {
	w.hear()
	w.wire.informer.watches.held()
	w.wire.well()
	if !w.initial && w.wire.current == "" {
		w.mark(false)
	}
}

// lasts notes that a watch has lasted for a while.
func (w *watching) lasts(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil && !w.isProbe {
		w.wire.well()
	}
}

// isBefore reports whether the server is at an earlier resourceVersion than the watch, as when it
// was restored from a backup. It would be silent until it is there. isBefore then ends the
// generation: the next one compares a list with what the consumer knows.
func (w *watching) isBefore(ctx context.Context, a answer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(w.opened, a.version)
	if ctx.Err() != nil || err != nil || order <= 0 {
		return false
	}
	i := w.wire.informer
	i.log.Log(ctx, slog.LevelWarn, "the API server is at an earlier resourceVersion than before: "+
		"was it restored from a backup? Comparing what informd knows with a list",
		"server", a.version, "before", w.opened)
	i.isAhead.Store(true)
	i.feed.lost()
	_ = w.wire.again(ctx) // fails if the generation ends anyway
	w.cancel()
	return true
}
