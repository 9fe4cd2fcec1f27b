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

// Bounds of Writes' memory. Beyond them it forgets the oldest: a rule may then receive a change of
// its own.
const (
	maxWritten  = 65536  // objects
	maxVersions = 64     // per object; a watch may be that far behind
	maxInAll    = 131072 // versions of all objects
	maxChain    = 8
)

// Writes knows who wrote which version of an object, of those that informd wrote since it started,
// and shortly before: see [Writes.Keep]. It is safe for concurrent use. An engine has one, which
// outlives its plans.
type Writes struct {
	keeping Keeping // the zero Keeping records nothing

	// mu guards the fields below. It is taken within the state's cut.
	mu      sync.Mutex
	objects map[target]*written
	oldest  *list.List // places by their last write, including those being written; guarded by mu
	inAll   int        // number of versions
	begun   uint64     // number of requests
	kept    kept

	reversals reversals // has a lock of its own
}

// target identifies an object across versions of the API.
type target struct {
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
	n     uint64 // counts requests in the order in which they began, from 1
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
	// Depth is 1 for a change that somebody else's change caused. If a change of informd's own
	// caused it, Depth is one more than that change's.
	Depth int
	// Chain has the rules whose changes led to it, newest first, at most 8. It begins with Rule.
	Chain []string
}

// Cause is what caused a change. The zero Cause is somebody else's change.
type Cause struct {
	Depth int // of the change that caused it; 0 if informd did not make that
	Chain []string
}

// NewWrites returns Writes that knows of no change.
func NewWrites() *Writes {
	return &Writes{objects: make(map[target]*written), oldest: list.New()}
}

// DeletionOf names the deletion of the object with that uid, for Writes. The API server does not
// say which version a deletion makes, and the last version that a rule saw may be any. So a rule
// asks Of with this name for an object that is gone, and with the resourceVersion for any other
// change.
func DeletionOf(uid string) string { return "deletion of " + uid }

// ChangeOf names a change from one resourceVersion to another, for Made. They are versions that a
// watcher saw, and there may have been others in between. from is "" if the object did not exist
// before.
func ChangeOf(from, to string) string { return from + arrow + to }

const arrow = " to " // no resourceVersion has it

// Made reports whether a change, named by ChangeOf or DeletionOf, is the rule's own and nobody
// else's. Every write between the two versions must be the rule's, because a rule builds on what
// others wrote, and a list after a broken watch shows only the outcome.
func (w *Writes) Made(
	resource schema.GroupVersionResource, key delta.Key, rule, change string,
) bool {
	from, to, isChange := strings.Cut(change, arrow)
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[targetOf(resource, key)]
	if o == nil {
		return false
	}
	for _, v := range o.versions { // oldest first: each leads only to later ones
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

// Begin records that a request begins which may change an object on behalf of the rule. The caller
// calls end once, when the answer arrives, with two versions: the one that the request was computed
// from ("": none), and the one that it made ("": none, or unknown).
func (w *Writes) Begin(
	resource schema.GroupVersionResource, key delta.Key, rule string, cause Cause,
) (end func(from, to string)) {
	at := targetOf(resource, key)
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.at(at)
	w.begun++
	r := &underWay{rule, w.begun, make(chan struct{})}
	o.underWay = append(o.underWay, r)
	w.forget()
	return func(from, to string) {
		w.end(at, r, version{from: from, to: to, write: cause.write(rule)})
	}
}

// at returns what is known of an object, which is written now. The caller holds mu.
func (w *Writes) at(at target) *written {
	o := w.objects[at]
	if o == nil {
		o = &written{at: w.oldest.PushBack(at)}
		w.objects[at] = o
	} else {
		w.oldest.MoveToBack(o.at)
	}
	return o
}

// end ends a request. It records what the request made, if somebody may ask for that after a
// restart. So what is recorded of the request's outcome later never gets to the disk alone.
func (w *Writes) end(at target, r *underWay, v version) {
	hasMade := v.to != "" && v.to != v.from
	isKept := hasMade && w.keeps(at)
	if isKept {
		defer w.keeping.Notes.Begin()()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[at]
	o.underWay = slices.DeleteFunc(o.underWay, func(other *underWay) bool { return other == r })
	close(r.ended)
	if hasMade {
		w.add(o, v)
	}
	if isKept {
		w.record(at, v)
	}
	if len(o.underWay) == 0 && len(o.versions) == 0 {
		w.drop(at, o)
	}
}

// add adds the newest version of an object. The caller holds mu.
func (w *Writes) add(o *written, v version) {
	if len(o.versions) == maxVersions {
		o.versions = slices.Delete(o.versions, 0, 1)
		w.inAll--
	}
	o.versions = append(o.versions, v)
	w.inAll++
}

// forget keeps the bounds. It passes over objects that are being written: handlers have few
// requests in progress. The caller holds mu.
func (w *Writes) forget() {
	for e := w.oldest.Front(); e != nil && (len(w.objects) > maxWritten || w.inAll > maxInAll); {
		at := e.Value.(target)
		e = e.Next()
		if o := w.objects[at]; len(o.underWay) == 0 {
			w.drop(at, o)
		}
	}
}

func (w *Writes) drop(at target, o *written) {
	w.oldest.Remove(o.at)
	delete(w.objects, at)
	w.inAll -= len(o.versions)
}

// Of returns who wrote a version of an object.
func (w *Writes) Of(
	resource schema.GroupVersionResource, key delta.Key, version string,
) (write Write, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[targetOf(resource, key)]
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

// Begun returns how many requests have begun since the start.
func (w *Writes) Begun() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

// Writing reports whether a request is in progress that may change the object on behalf of the
// rule, or of any rule if rule is "". It considers only the requests that had begun when Begun
// returned first. Once Writing returns false, Of knows their outcome.
func (w *Writes) Writing(
	resource schema.GroupVersionResource, key delta.Key, rule string, first uint64,
) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[targetOf(resource, key)]
	return o != nil && slices.ContainsFunc(o.underWay, func(r *underWay) bool {
		return r.n <= first && (rule == "" || r.rule == rule)
	})
}

// Wait returns when the requests that may change the object now have ended, or when ctx ends. It
// ignores requests that begin later, because nobody has seen their changes yet.
func (w *Writes) Wait(ctx context.Context, resource schema.GroupVersionResource, key delta.Key) {
	var now []*underWay
	w.mu.Lock()
	if o := w.objects[targetOf(resource, key)]; o != nil {
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

// onward returns the version to which the rule's own changes led from a version, if nobody else
// changed the object in between. Otherwise it returns from.
func (w *Writes) onward(
	resource schema.GroupVersionResource, key delta.Key, rule, from string,
) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[targetOf(resource, key)]
	if o == nil {
		return from
	}
	for _, v := range o.versions { // oldest first: each leads only to later ones
		if v.from == from && v.write.Rule == rule {
			from = v.to
		}
	}
	return from
}

// causeOf returns what caused an event, if informd wrote it. Of the items of a group it returns the
// deepest cause: changes of other objects must not hide rules that chase each other.
func (w *Writes) causeOf(ctx context.Context, ev *handler.Event) (deepest Cause, known bool) {
	deepest, known = w.causeOfChange(ctx, ev)
	for i := range ev.Items {
		cause, isOwn := w.causeOfChange(ctx, &ev.Items[i])
		if isOwn && (!known || cause.Depth > deepest.Depth) {
			deepest, known = cause, true
		}
	}
	return deepest, known
}

func (w *Writes) causeOfChange(ctx context.Context, ev *handler.Event) (Cause, bool) {
	if ev.Event == handler.Synced {
		return Cause{}, false // somebody else's change, or too long ago to tell
	}
	resource, key := resourceOf(ev.Resource), delta.Key{Namespace: ev.Namespace, Name: ev.Name}
	// events of a watch overtake the answers to the requests that caused them
	w.Wait(ctx, resource, key)
	if ev.Event == handler.Deleted {
		if write, known := w.Of(resource, key, DeletionOf(ev.UID)); known {
			return write.cause(), true
		}
	}
	write, known := w.Of(resource, key, ev.ResourceVersion)
	return write.cause(), known
}

func (w Write) cause() Cause { return Cause{Depth: w.Depth, Chain: w.Chain} }

// write returns the change that a rule makes because of c.
func (c Cause) write(rule string) Write {
	chain := append([]string{rule}, c.Chain...)
	return Write{Rule: rule, Depth: c.Depth + 1, Chain: chain[:min(len(chain), maxChain)]}
}

func targetOf(resource schema.GroupVersionResource, key delta.Key) target {
	at := resource.GroupResource()
	if at.Group == "events.k8s.io" && at.Resource == "events" {
		at.Group = "" // the same objects belong to both groups
	}
	return target{at, key}
}

// VersionOf returns the version of a change as Writes.Made knows it, or "" if no write can
// have made it.
func VersionOf(d delta.Delta) string {
	switch d.Type {
	case delta.Synced:
		return ""
	case delta.Deleted:
		return DeletionOf(d.Object.UID())
	}
	from := ""
	if d.Old != nil {
		from = d.Old.ResourceVersion()
	}
	return ChangeOf(from, d.Object.ResourceVersion())
}
