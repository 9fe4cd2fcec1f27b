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

// told is one change, as it happened or as an informer reported it. An update that changes the uid
// is two changes, a deletion and an addition. informd reports it that way, and a listener of
// client-go must read it that way.
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
		panic(err) // the server's resourceVersions are numbers
	}
	key := cache.NewObjectName(m.GetNamespace(), m.GetName()).String()
	return told{kind: kind, key: key, uid: string(m.GetUID()), version: version, object: o}
}

func (t told) String() string { return fmt.Sprintf("%v %s %s at %d", t.kind, t.key, t.uid, t.version) }

// truth holds what happened on the server to the objects that the informers select, as a perfect
// watch would report it. It also holds the current objects.
type truth struct {
	selects func(*unstructured.Unstructured) bool
	keeps   bool // informd keeps only keptPaths

	before map[string]told // the objects when the stretch began, by key
	now    map[string]told
	steps  []told                               // the changes from before to now
	states map[int64]*unstructured.Unstructured // of before and steps, by resourceVersion
}

func newTruth(selects func(*unstructured.Unstructured) bool) *truth {
	return &truth{selects: selects, now: map[string]told{}}
}

// begin starts a stretch: it forgets the earlier changes.
func (t *truth) begin() {
	t.before, t.states, t.steps = map[string]told{}, map[int64]*unstructured.Unstructured{}, nil
	for key, o := range t.now {
		t.before[key] = o
		t.states[o.version] = o.object.(*unstructured.Unstructured)
	}
}

// applied records that an object was created or changed to u.
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

// deleted records that an object was deleted at a resourceVersion.
func (t *truth) deleted(key, version string) {
	if was, known := t.now[key]; known {
		t.step(lastState(was, version))
	}
}

// withdrawn records that all objects are gone, without an event.
func (t *truth) withdrawn() {
	for _, was := range t.now {
		t.step(tell(delta.Deleted, was.object))
	}
}

// lastState returns the deletion that a watch reports: the last state, at the resourceVersion of
// the deletion.
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

// exactly checks that the informer reported every change once and in order.
func (t *truth) exactly(tb testing.TB, heard []told) {
	tb.Helper()
	if diff := cmp.Diff(lines(t.steps), lines(heard)); diff != "" {
		tb.Errorf("reported other changes than happened (-happened +reported):\n%s", diff)
		return
	}
	for _, h := range heard {
		t.faithful(tb, h)
	}
}

// legally checks the report of an informer that may have missed changes. The report must lead from
// the objects before to those now, forward, through states that existed, and must repeat nothing.
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
			tb.Errorf("reported %v, but only the first list may report Synced", h)
		case there != (h.kind == delta.Updated || h.kind == delta.Deleted):
			tb.Errorf("reported %v, but the object existed before: %v (%v)", h, there, was)
		case there && h.uid != was.uid:
			tb.Errorf("reported %v of another object than %v", h, was)
		case there && h.version <= was.version && (h.kind != delta.Deleted || h.version < was.version):
			tb.Errorf("reported %v, which is not newer than %v", h, was)
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
			tb.Errorf("%s is at %d, but was last reported at %d", key, o.version, known[key].version)
		}
	}
	for key := range known {
		if _, there := t.now[key]; !there {
			tb.Errorf("%s is gone, but its deletion was not reported", key)
		}
	}
}

// faithful checks that the reported object equals the server's state at that resourceVersion.
func (t *truth) faithful(tb testing.TB, h told) {
	tb.Helper()
	state := t.states[h.version]
	if state == nil {
		tb.Errorf("reported %v, but there was no such state", h)
		return
	}
	t.same(tb, h.String(), state, h.object)
}

// same checks that got equals want in the fields that the side keeps.
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
