package running

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/targets"
)

// heirsPoll is how long an heir waits whose rule cannot say yet what its source object asks for.
const heirsPoll = time.Second

// Heirs are source objects whose targets wait for a delivery: the owner before them has let a target
// go, the last run has ended before it came to them, or the target's namespace has appeared. They
// are offered to the lanes of their rules. There are at most as many as claims. Heirs is safe for
// concurrent use.
type Heirs struct {
	mu         sync.Mutex // a leaf; guards the sets
	waiting    map[targets.Asker]struct{}
	namespaces map[string]struct{} // that have appeared
	poke       chan struct{}       // capacity 1; signals that there are more
}

// NewHeirs returns Heirs without any.
func NewHeirs() *Heirs {
	return &Heirs{
		waiting: make(map[targets.Asker]struct{}), namespaces: make(map[string]struct{}),
		poke: make(chan struct{}, 1),
	}
}

// Add has the source objects of claims offered. It does not block, and may be called within a cut.
func (h *Heirs) Add(claims []targets.Claim) {
	for _, c := range claims {
		put(h, h.waiting, c.Asker)
	}
}

// Appear has what waits for a namespace tried. It does not block, and may be called within a cut.
func (h *Heirs) Appear(namespace string) { put(h, h.namespaces, namespace) }

func put[K comparable](h *Heirs, set map[K]struct{}, k K) {
	h.keep(func() { set[k] = struct{}{} })
	select {
	case h.poke <- struct{}{}:
	default:
	}
}

func (h *Heirs) keep(put func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	put()
}

// take returns those that wait, sorted, and forgets them.
func (h *Heirs) take() (askers []targets.Asker, appeared []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	askers = slices.SortedFunc(maps.Keys(h.waiting), func(a, b targets.Asker) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key.Namespace, b.Key.Namespace),
			cmp.Compare(a.Key.Name, b.Key.Name))
	})
	appeared = slices.Sorted(maps.Keys(h.namespaces))
	clear(h.waiting)
	clear(h.namespaces)
	return askers, appeared
}

// offer offers those that wait to the lanes of a work, until ctx ends. It returns false if some
// cannot be offered yet.
func (h *Heirs) offer(ctx context.Context, p *Parts, w *Work) (all bool) {
	askers, appeared := h.take()
	for _, namespace := range appeared {
		for _, a := range p.Targets.Appeared(namespace) {
			r := w.ByID(a.Rule)
			if r == nil || r.Lane.RetryNow(func(k delta.Key) bool { return k == a.Key }) > 0 {
				continue
			}
			askers = append(askers, a) // also behind a wave under way, which may have passed it over
		}
	}
	all = true
	for _, a := range askers {
		if ctx.Err() != nil || !p.offerHeir(w, a) {
			h.keep(func() { h.waiting[a] = struct{}{} })
			all = false
		}
	}
	return all
}

// Run offers heirs until ctx ends. An heir whose rule waits for its sources is offered later.
func (h *Heirs) Run(ctx context.Context, p *Parts) {
	for {
		w, err := p.Present.Settled(ctx)
		if err != nil {
			return
		}
		var later <-chan time.Time
		if !h.offer(ctx, p, w) {
			later = time.After(heirsPoll)
		}
		select {
		case <-later:
		case <-h.poke:
		case <-ctx.Done():
			return
		}
	}
}

// Offer offers those that wait, once. It is for an engine that is stepped.
func (h *Heirs) Offer(p *Parts) { h.offer(context.Background(), p, p.Present.Work()) }

// offerHeir offers a source object to the lane of its rule, as it is now. It returns false if the
// rule does not know it yet.
func (p *Parts) offerHeir(w *Work, a targets.Asker) bool {
	r := w.ByID(a.Rule)
	if r == nil || !r.Owns() || r.Memory.Ended() {
		return true
	}
	if r.Pruning == nil || !r.OwnSource.View.HasSynced() || isHeld(w, r) {
		return false
	}
	in, _ := w.Intakes.For(r, a.Key)
	if in == nil {
		return true
	}
	in.Look(func(*intake.Intake, func(string) *object.Object) {
		if p.Store != nil {
			p.Store.Pace()
		}
		defer live.Notes{Store: p.Store}.Begin()()
		d := r.Pruning.Rule.Late(a.Key) // it prunes, unless the object comes before that
		o, ok := r.OwnSource.View.Get(a.Key.Namespace, a.Key.Name)
		if ok && r.Preparer.Selects(o, p.Clock.Now()) {
			d = delta.Delta{Type: delta.Synced, Object: o, Round: delta.Known}
		}
		r.Stamp(&d)
		r.Lane.OfferActions(d)
	})
	return true
}
