package source

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/object/scan"
	"github.com/informd/informd/engine/timing"
)

// Hand drives one Informer by hand, in place of its wire, of client-go and of its goroutines. Its
// methods say what an API server would answer. Each returns when the consumer has taken what
// follows from that. Reading, the cache, its indexes and the feed are those of a running informer.
//
// A Hand begins with Resume, List or Unserve, as a running informer does. Its calls must not
// overlap. An informer with a Hand must not run. Of an informer with a fixed object, only Tick is
// called.
type Hand struct {
	informer *Informer
	present  *generation // nil before Resume or List

	// Of a resource that is not served: whether it is gone in all versions, since when, and whether
	// its objects count as deleted. since is zero while the resource is served.
	isWithdrawn bool
	since       time.Time
	isOver      bool
}

// Hand returns the Hand of an informer. It is called once, after Consume and Restore. It begins an
// informer with a fixed object.
func (i *Informer) Hand() *Hand {
	i.hearing.isGiven = true
	i.feed.sort() // a fixed informer that a reload begins may be visited already
	i.health.listing()
	h := &Hand{informer: i}
	if i.byHand = h; i.IsFixed() {
		_ = h.List("1", [][]byte{i.fixed}) // it is JSON
	}
	return h
}

// Position returns the resourceVersion from which the informer wants to follow the server. It is
// empty if only a list will do.
func (h *Hand) Position() string {
	if saved := h.informer.saved; saved != nil && saved.follows() {
		return saved.ResourceVersion
	}
	return ""
}

// Resume begins a watch from Position, which must not be empty. Then the changes since that
// position follow, and CaughtUp.
func (h *Hand) Resume() {
	g := h.begin()
	saved := g.wire.saved
	g.wire.saved, g.wire.resumed, g.wire.parts = nil, true, saved.Partial
	entries := h.informer.reader.restored(context.Background(), saved, h.informer.Packer())
	_ = g.store.Replace(asAny(entries), "")
	g.listed()
}

// CaughtUp says that a watch that resumed has sent everything up to a resourceVersion. If relist is
// true, the informer needs a list now, because only parts of its objects were saved.
func (h *Hand) CaughtUp(resourceVersion string) (relist bool) {
	if h.present.wire.parts {
		return true
	}
	h.mark(resourceVersion, true)
	return false
}

// Bookmark says that the watch has sent everything up to a resourceVersion.
func (h *Hand) Bookmark(resourceVersion string) { h.mark(resourceVersion, false) }

func (h *Hand) mark(resourceVersion string, caughtUp bool) {
	if m, isReached := h.informer.gate.mark(position(resourceVersion), caughtUp); isReached {
		h.informer.reached(m)
	}
}

// List answers a list: the objects, as JSON, up to a resourceVersion. It begins the informer, or
// makes it list again because the server has lost the history of its watch, or serves the resource
// again. The error is about an object that is not JSON; then nothing has happened.
func (h *Hand) List(resourceVersion string, objects [][]byte) error {
	entries := make([]*entry, 0, len(objects))
	for _, text := range objects {
		e, err := h.read(text)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if !h.since.IsZero() {
		h.since, h.isWithdrawn, h.isOver = time.Time{}, false, false
		h.informer.health.listing()
	}
	g := h.begin()
	if g.wire.saved != nil {
		g.wire.saved = nil
		h.informer.feed.lost()
	}
	g.wire.version = position(resourceVersion)
	var list []any
	for _, e := range entries {
		if g.wire.initial(e) {
			list = append(list, e)
		}
	}
	_ = g.store.Replace(list, resourceVersion)
	for _, e := range list {
		g.OnAdd(e, true)
	}
	g.listed()
	return nil
}

// Apply sends a watch event about an object that was added or modified. The error says that it is
// not JSON.
func (h *Hand) Apply(object []byte) error {
	e, err := h.read(object)
	if err != nil {
		return err
	}
	if e.arrival.unfit != nil {
		h.informer.reader.unreadable(e)
		if e.Name() != "" {
			h.send(e, h.present.store.Delete, h.present.OnDelete)
		}
		return nil
	}
	h.send(e, h.present.store.Update, func(obj any) { h.present.OnAdd(obj, false) })
	return nil
}

// Delete sends a watch event about an object that is gone: its last state, with the resourceVersion
// of the deletion. The error says that it is not JSON.
func (h *Hand) Delete(final []byte) error {
	e, err := h.read(final)
	if err != nil {
		return err
	}
	if e.Name() != "" {
		h.send(e, h.present.store.Delete, h.present.OnDelete)
	}
	return nil
}

// send passes an event of the watch through the gate, to the store and to the consumer.
func (h *Hand) send(e *entry, store func(any) error, on func(any)) {
	e.arrival.number, _ = h.informer.gate.enter(context.Background()) // nothing else is in flight
	_ = store(e)                                                      // fails only without a key
	on(e)
}

// Disconnect says that the watch is broken. It logs nothing: nobody was surprised.
func (h *Hand) Disconnect() {
	h.informer.health.trouble(Failing, "the watch is broken", false)
}

// Connect says that the server can be reached again. What has changed since Disconnect follows.
func (h *Hand) Connect() { h.informer.health.well() }

// Unserve says that the server does not serve the resource in the informer's version. isWithdrawn
// says that it serves no other version, either. List says that it serves the resource again.
func (h *Hand) Unserve(isWithdrawn bool) {
	i := h.informer
	h.isWithdrawn, h.since = isWithdrawn, i.parent.clock.Now()
	if i.feed.isEmpty() {
		i.cache.empty()
	}
	reason := "the cluster does not serve " + object.ResourceName(i.sel.Resource)
	i.hasFollowed = true
	i.health.notServed(reason, i.counts.objects.Load())
}

// Tick does what is due at the time of the clock, and returns when something is due again; a zero
// time means never. The result holds until the next call of another method.
func (h *Hand) Tick() (due time.Time) {
	gone := h.gone()
	return timing.Earlier(h.informer.feed.tick(), gone)
}

// gone reports the objects of a withdrawn resource as deleted, if it is time. Otherwise it returns
// when that is; the zero time means never.
func (h *Hand) gone() (at time.Time) {
	i := h.informer
	if h.since.IsZero() || !h.isWithdrawn || h.isOver {
		return at
	}
	if at = h.since.Add(i.parent.goneAfter); i.parent.clock.Now().Before(at) {
		return at
	}
	h.isOver = true
	i.gone(context.Background())
	return time.Time{}
}

// begin begins a generation, which takes the place of the one before.
func (h *Hand) begin() *generation {
	h.informer.gate.reset()
	h.present = h.informer.newGeneration()
	return h.present
}

func (h *Hand) read(text []byte) (*entry, error) {
	s := scan.New(text)
	e, err := h.informer.reader.entry(&s)
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return nil, fmt.Errorf("read an object of %v: %w", h.informer.sel, err)
	}
	return e, nil
}

func asAny(entries []runtime.Object) []any {
	all := make([]any, len(entries))
	for i, e := range entries {
		all[i] = e
	}
	return all
}
