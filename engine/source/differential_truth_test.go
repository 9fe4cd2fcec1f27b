package source

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// told is one change, as it happened or as an informer has told it. A change of uid behind an update is two, a deletion
// and an addition: that is how informd tells it, and how a listener of client-go's has to read it.
type told struct {
	kind     delta.Type
	key, uid string
	version  int64
	object   runtime.Object
}

func tell(kind delta.Type, o runtime.Object) told {
	m, err := meta.Accessor(o)
	if err != nil {
		panic(err) // neither *unstructured.Unstructured nor *object.Object
	}
	version, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err) // the server's are numbers
	}
	key := cache.NewObjectName(m.GetNamespace(), m.GetName()).String()
	return told{kind: kind, key: key, uid: string(m.GetUID()), version: version, object: o}
}

func (t told) String() string { return fmt.Sprintf("%v %s %s at %d", t.kind, t.key, t.uid, t.version) }

// truth is what happened on the server to the objects that the informers select, as a watch that misses nothing tells
// it, and what is there now.
type truth struct {
	selects func(*unstructured.Unstructured) bool
	keeps   bool // informd no more than keptPaths

	before map[string]told // what was there when changes began, by key
	now    map[string]told
	steps  []told                               // how it came from before to now
	states map[int64]*unstructured.Unstructured // all of before and steps, by resourceVersion
}

func newTruth(selects func(*unstructured.Unstructured) bool) *truth {
	return &truth{selects: selects, now: map[string]told{}}
}

// begin forgets how it came to now.
func (t *truth) begin() {
	t.before, t.states, t.steps = map[string]told{}, map[int64]*unstructured.Unstructured{}, nil
	for key, o := range t.now {
		t.before[key] = o
		t.states[o.version] = o.object.(*unstructured.Unstructured)
	}
}

// applied takes in that an object was made or changed to u.
func (t *truth) applied(u *unstructured.Unstructured) {
	added := tell(delta.Added, u)
	was, known := t.now[added.key]
	switch is := t.selects(u); {
	case known && is && was.uid == added.uid:
		t.step(tell(delta.Updated, u))
	case known && is:
		t.step(tell(delta.Deleted, was.object))
		t.step(added)
	case is:
		t.step(added)
	case known:
		t.step(lastState(was, u.GetResourceVersion()))
	}
}

// deleted takes in that an object was deleted at a resourceVersion.
func (t *truth) deleted(key, version string) {
	if was, known := t.now[key]; known {
		t.step(lastState(was, version))
	}
}

// withdrawn takes in that everything is gone, without an event.
func (t *truth) withdrawn() {
	for _, was := range t.now {
		t.step(tell(delta.Deleted, was.object))
	}
}

// lastState is what a watch tells as deleted: the state before, at the resourceVersion of the deletion.
func lastState(was told, version string) told {
	u := was.object.(*unstructured.Unstructured).DeepCopy()
	u.SetResourceVersion(version)
	return tell(delta.Deleted, u)
}

func (t *truth) step(s told) {
	t.steps = append(t.steps, s)
	t.states[s.version] = s.object.(*unstructured.Unstructured)
	if s.kind == delta.Deleted {
		delete(t.now, s.key)
	} else {
		t.now[s.key] = s
	}
}

// exactly checks that everything that happened was told, once, in its order.
func (t *truth) exactly(tb testing.TB, heard []told) {
	tb.Helper()
	if diff := cmp.Diff(lines(t.steps), lines(heard)); diff != "" {
		tb.Errorf("not what happened (-happened +told):\n%s", diff)
		return
	}
	for _, h := range heard {
		t.faithful(tb, h)
	}
}

// legally checks that what was told, by one that may have missed something, leads from what was there to what is there,
// forward, through states that there were, and telling nothing twice.
func (t *truth) legally(tb testing.TB, heard []told) {
	tb.Helper()
	known := map[string]told{}
	for key, o := range t.before {
		known[key] = o
	}
	for _, h := range heard {
		was, there := known[h.key]
		switch {
		case h.kind == delta.Synced && len(t.before) > 0:
			tb.Errorf("told %v, which is for what was there at first sight", h)
		case there != (h.kind == delta.Updated || h.kind == delta.Deleted):
			tb.Errorf("told %v, of what was: %v, %v", h, there, was)
		case there && h.uid != was.uid:
			tb.Errorf("told %v of another object: %v", h, was)
		case there && h.version <= was.version && (h.kind != delta.Deleted || h.version < was.version):
			tb.Errorf("told %v, which is not new after %v", h, was)
		}
		t.faithful(tb, h)
		if h.kind == delta.Deleted {
			delete(known, h.key)
		} else {
			known[h.key] = h
		}
	}
	for key, o := range t.now {
		if known[key].version != o.version {
			tb.Errorf("%s is at %d, and was told at %d", key, o.version, known[key].version)
		}
	}
	for key := range known {
		if _, there := t.now[key]; !there {
			tb.Errorf("%s is gone, and that was not told", key)
		}
	}
}

// faithful checks that the object was told as it was at that resourceVersion.
func (t *truth) faithful(tb testing.TB, h told) {
	tb.Helper()
	state := t.states[h.version]
	if state == nil {
		tb.Errorf("told %v, and there was no such state", h)
		return
	}
	t.same(tb, h.String(), state, h.object)
}

// same checks that got is what there was, as far as its side keeps it.
func (t *truth) same(tb testing.TB, what string, want, got runtime.Object) {
	tb.Helper()
	was := tree(want)
	if _, ours := got.(*object.Object); ours && t.keeps {
		was = kept(was)
	}
	if d := difference(was, tree(got)); d != "" {
		tb.Errorf("%s: %s", what, d)
	}
}

func lines(all []told) []string {
	out := []string{}
	for _, t := range all {
		out = append(out, t.String())
	}
	return out
}

func selects(namespace, labelSelector string) func(*unstructured.Unstructured) bool {
	selector, err := labels.Parse(labelSelector)
	if err != nil {
		panic(err)
	}
	return func(u *unstructured.Unstructured) bool {
		return (namespace == "" || namespace == u.GetNamespace()) && selector.Matches(labels.Set(u.GetLabels()))
	}
}
