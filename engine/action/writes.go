package action

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Bounds of what Writes remembers. Past them the oldest is forgotten: a change of the rule's own may then come back to it.
const (
	maxWritten  = 65536  // objects
	maxVersions = 64     // of each: a watch may be that many behind
	maxInAll    = 131072 // versions, of all objects
	maxChain    = 8
)

// Writes knows who wrote which version of an object, among those that informd wrote since it started. It is safe for
// concurrent use. There is one per engine, which outlives the plans that it runs.
type Writes struct {
	mu      sync.Mutex
	objects map[place]*written
	oldest  *list.List // of place, by their last write; those being written are in it too
	inAll   int        // versions
	begun   uint64     // requests
}

// place is where an object is, whatever version of the API it is reached by.
type place struct {
	resource schema.GroupResource
	key      delta.Key
}

// written is what is known of one object.
type written struct {
	at       *list.Element
	underWay []*underWay // begun and not ended
	versions []version   // at most maxVersions, oldest first
}

// underWay is a request that may change an object.
type underWay struct {
	rule  string
	n     uint64 // in the order in which they began, from 1
	ended chan struct{}
}

type version struct {
	from, to string
	write    Write
}

// Write is one change that informd made.
type Write struct {
	// Rule made it.
	Rule string
	// Depth is 1 for a change in consequence of somebody else's, and one more than that of the change of informd's own
	// that it is in consequence of.
	Depth int
	// Chain has the rules whose changes led to it, newest first and Rule the first of them, at most 8.
	Chain []string
}

// Cause is what a change is in consequence of. The zero Cause is somebody else's change.
type Cause struct {
	Depth int // of the change that led to it; 0 if informd did not make that
	Chain []string
}

// NewWrites makes Writes that knows of none.
func NewWrites() *Writes {
	return &Writes{objects: make(map[place]*written), oldest: list.New()}
}

// DeletionOf is the version, as Writes understands it, of the deletion of the object with the uid. The API server tells
// nobody who deletes an object the version of that, and the last version that was seen of it may be any: a rule asks Of
// with this for an object that is gone, and with the resourceVersion for any other change.
func DeletionOf(uid string) string { return "deletion of " + uid }

// ChangeOf is a change, as Made understands it, from one resourceVersion to another as somebody saw them who watches. There may
// have been more in between. from is "" where nothing was there before.
func ChangeOf(from, to string) string { return from + arrow + to }

const arrow = " to " // is in no resourceVersion

// Made tells whether a change, of ChangeOf or DeletionOf, is the rule's own and nobody else's: a rule writes onto what others
// wrote, and a list after a watch that broke shows the outcome alone. So each write that led from one version to the other is
// to be the rule's.
func (w *Writes) Made(resource schema.GroupVersionResource, key delta.Key, rule, change string) bool {
	from, to, isChange := strings.Cut(change, arrow)
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[placeOf(resource, key)]
	if o == nil {
		return false
	}
	for _, v := range o.versions { // oldest first: each leads to those behind it only
		switch {
		case v.write.Rule != rule:
		case !isChange && v.to == change, isChange && v.from == from && v.to == to:
			return true
		case isChange && v.from == from:
			from = v.to
		}
	}
	return false
}

// Begin says that a request which may change an object begins on behalf of the rule. end is called once, when the answer is
// there: with the version that the request was computed from ("": there was none) and the one that it made, "" if it made
// none, or none that is known.
func (w *Writes) Begin(resource schema.GroupVersionResource, key delta.Key, rule string, cause Cause) (end func(from, to string)) {
	at := placeOf(resource, key)
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[at]
	if o == nil {
		o = &written{at: w.oldest.PushBack(at)}
		w.objects[at] = o
	} else {
		w.oldest.MoveToBack(o.at)
	}
	w.begun++
	r := &underWay{rule, w.begun, make(chan struct{})}
	o.underWay = append(o.underWay, r)
	w.forget()
	return func(from, to string) { w.end(at, r, version{from: from, to: to, write: cause.write(rule)}) }
}

func (w *Writes) end(at place, r *underWay, v version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[at]
	o.underWay = slices.DeleteFunc(o.underWay, func(other *underWay) bool { return other == r })
	close(r.ended)
	if v.to != "" && v.to != v.from {
		if len(o.versions) == maxVersions {
			o.versions = slices.Delete(o.versions, 0, 1)
			w.inAll--
		}
		o.versions = append(o.versions, v)
		w.inAll++
	}
	if len(o.underWay) == 0 && len(o.versions) == 0 {
		w.drop(at, o)
	}
}

// forget keeps the bounds. What is being written is passed over: there is one request for each at most, of the few that
// handlers have under way.
func (w *Writes) forget() {
	for e := w.oldest.Front(); e != nil && (len(w.objects) > maxWritten || w.inAll > maxInAll); {
		at := e.Value.(place)
		e = e.Next()
		if o := w.objects[at]; len(o.underWay) == 0 {
			w.drop(at, o)
		}
	}
}

func (w *Writes) drop(at place, o *written) {
	w.oldest.Remove(o.at)
	delete(w.objects, at)
	w.inAll -= len(o.versions)
}

// Of tells who wrote the version of an object.
func (w *Writes) Of(resource schema.GroupVersionResource, key delta.Key, version string) (write Write, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[placeOf(resource, key)]
	if o == nil {
		return Write{}, false
	}
	for _, v := range o.versions {
		if v.to == version {
			return v.write, true
		}
	}
	return Write{}, false
}

// Begun is how many requests have begun, ever.
func (w *Writes) Begun() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

// Writing tells whether one of the first so many requests, as Begun counts them, is under way that may change the object on
// behalf of the rule, or of any rule if that is empty. From when it no longer is, Of knows what came of it.
func (w *Writes) Writing(resource schema.GroupVersionResource, key delta.Key, rule string, first uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[placeOf(resource, key)]
	return o != nil && slices.ContainsFunc(o.underWay, func(r *underWay) bool { return r.n <= first && (rule == "" || r.rule == rule) })
}

// Wait returns when none of the requests is under way any more that are now and may change the object, or ctx ends. Those that
// begin later made nothing that anybody has seen by now.
func (w *Writes) Wait(ctx context.Context, resource schema.GroupVersionResource, key delta.Key) {
	var now []*underWay
	w.mu.Lock()
	if o := w.objects[placeOf(resource, key)]; o != nil {
		now = slices.Clone(o.underWay)
	}
	w.mu.Unlock()
	for _, r := range now {
		select {
		case <-r.ended:
		case <-ctx.Done():
			return
		}
	}
}

// onward is the version that the rule's own changes have made of a version, if nobody else's came between; or the version
// itself.
func (w *Writes) onward(resource schema.GroupVersionResource, key delta.Key, rule, from string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[placeOf(resource, key)]
	if o == nil {
		return from
	}
	for _, v := range o.versions { // oldest first: each leads to those behind it only
		if v.from == from && v.write.Rule == rule {
			from = v.to
		}
	}
	return from
}

// causeOf is what led to an event, as far as informd wrote it.
func (w *Writes) causeOf(ctx context.Context, ev *handler.Event) (Cause, bool) {
	if ev.Event == handler.Synced {
		return Cause{}, false // nobody's change, or too long ago to tell
	}
	resource, key := resourceOf(ev.Resource), delta.Key{Namespace: ev.Namespace, Name: ev.Name}
	w.Wait(ctx, resource, key) // a watch's events overtake the answers to the requests that made them
	if ev.Event == handler.Deleted {
		if write, known := w.Of(resource, key, DeletionOf(ev.UID)); known {
			return write.cause(), true
		}
	}
	write, known := w.Of(resource, key, ev.ResourceVersion)
	return write.cause(), known
}

func (w Write) cause() Cause { return Cause{Depth: w.Depth, Chain: w.Chain} }

// write is the change that a rule makes in consequence of c.
func (c Cause) write(rule string) Write {
	chain := append([]string{rule}, c.Chain...)
	return Write{Rule: rule, Depth: c.Depth + 1, Chain: chain[:min(len(chain), maxChain)]}
}

func placeOf(resource schema.GroupVersionResource, key delta.Key) place {
	at := resource.GroupResource()
	if at.Group == "events.k8s.io" && at.Resource == "events" {
		at.Group = "" // the same objects
	}
	return place{at, key}
}
