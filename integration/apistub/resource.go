package apistub

import (
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is a served GVR. The server's mu guards it.
type resource struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
	head       string // what its objects begin with on the wire
	stored     *stored
	contents   // stored, or synthetic ones
}

// contents are a resource's objects and their history. The server's mu guards the methods, not what
// they return.
type contents interface {
	get(namespace, name string) *document
	// at returns what a request sees of the objects at rv, in the order of their places, after a
	// place; "" means from the first. It returns false if that moment is forgotten.
	at(rv int64, after string, q *request) (snapshot, bool)
	// since returns the events after rv, oldest first, or false if they are forgotten. A document
	// is valid until the next step.
	since(rv int64) (iter.Seq[event], bool)
	// oldest returns the first resourceVersion from which everything is remembered.
	oldest() int64
	expire(rv int64)
	trim(history int)
}

// event is a change: an addition if prev is nil, a deletion if doc is nil.
type event struct {
	rv        int64
	prev, doc *document
}

// snapshot yields the objects of one moment with their places. A document is valid until the next
// step.
type snapshot struct {
	docs  iter.Seq2[string, *document]
	count int // -1: not known
}

// page returns the place of the last of n objects, and whether there are more.
func (s snapshot) page(n int) (last string, more bool) {
	for place := range s.docs {
		if n == 0 {
			return last, true
		}
		last = place
		n--
	}
	return last, false
}

func newResource(gvr schema.GroupVersionResource, kind string, namespaced bool) *resource {
	return &resource{
		gvr: gvr, kind: kind, namespaced: namespaced,
		head: fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, kind, gvr.GroupVersion()),
	}
}

// Serve serves a resource from now on, without objects. It does nothing if the resource is served
// already.
func (s *Server) Serve(gvr schema.GroupVersionResource, kind string, namespaced bool) {
	s.set(func() {
		if s.resources[gvr] == nil {
			res := newResource(gvr, kind, namespaced)
			res.stored = &stored{objects: map[string]*document{}, floor: s.rv}
			res.contents = res.stored
			s.resources[gvr] = res
		}
	})
}

// Withdraw stops serving a resource. Its objects are gone without an event, its watches end,
// requests get 404, and discovery does not list it. If it is served again, no watch can go on where it
// ended. To imitate the deletion of a CRD, delete the
// objects first.
func (s *Server) Withdraw(gvr schema.GroupVersionResource) {
	s.set(func() {
		if res := s.resources[gvr]; res != nil {
			delete(s.resources, gvr)
			s.rv++ // what Serve forgets next includes all that a watch has seen
			s.drop(res)
		}
	})
}

// Apply creates an object, or replaces the one of that name, and returns it as stored. Every call
// is a change. obj is JSON ([]byte or string) or what marshals to it. The server sets apiVersion,
// kind and resourceVersion; where they are missing also the namespace ("default"),
// creationTimestamp and uid, those of the object replaced if there is one. So another uid makes it
// another object behind an update, as a watch sees it that missed the deletion.
func (s *Server) Apply(gvr schema.GroupVersionResource, obj any) *unstructured.Unstructured {
	s.tb.Helper()
	var stored json.RawMessage
	s.set(func() {
		res := s.served(gvr)
		stored = res.json(s.apply(res, obj))
	})
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(stored); err != nil {
		s.tb.Fatalf("apistub: %v", err)
	}
	return u
}

// Load applies n objects at once: no list shows some of them without the others. object makes the
// i-th. With nil they are small and have the names load-000000, load-000001, ….
func (s *Server) Load(gvr schema.GroupVersionResource, n int, object func(i int) any) {
	s.tb.Helper()
	if object == nil {
		object = func(i int) any { return fmt.Sprintf(`{"metadata":{"name":"load-%06d"}}`, i) }
	}
	s.set(func() {
		res := s.served(gvr)
		for i := range n {
			s.apply(res, object(i))
		}
	})
}

// Delete deletes an object, which must exist. The namespace of a cluster-wide one is "".
func (s *Server) Delete(gvr schema.GroupVersionResource, namespace, name string) {
	s.tb.Helper()
	s.set(func() {
		res := s.served(gvr).stored
		prev := res.get(namespace, name)
		if prev == nil {
			s.tb.Fatalf("apistub: delete: no %s %s/%s", gvr.Resource, namespace, name)
		}
		delete(res.objects, prev.key())
		s.rv++
		res.record(event{rv: s.rv, prev: prev}, s.history)
	})
}

func (s *Server) served(gvr schema.GroupVersionResource) *resource {
	s.tb.Helper()
	res := s.resources[gvr]
	if res == nil || res.stored == nil {
		s.tb.Fatalf("apistub: %v is not served, or synthetic", gvr)
	}
	return res
}

func (s *Server) apply(res *resource, obj any) *document {
	s.tb.Helper()
	raw, err := marshal(obj)
	if err != nil {
		s.tb.Fatalf("apistub: apply: %v", err)
	}
	d, err := parse(raw, res.namespaced)
	if err != nil {
		s.tb.Fatalf("apistub: apply: %v", err)
	}
	prev := res.stored.objects[d.key()]
	s.rv++
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", s.rv)
	created := time.Now().UTC().Format(time.RFC3339)
	if prev != nil {
		uid, created = prev.uid, prev.created
	}
	d.finish(uid, created, s.rv)
	res.stored.objects[d.key()] = d
	res.stored.record(event{rv: s.rv, prev: prev, doc: d}, s.history)
	return d
}

func marshal(obj any) ([]byte, error) {
	switch obj := obj.(type) {
	case []byte:
		return obj, nil
	case string:
		return []byte(obj), nil
	default:
		return json.Marshal(obj)
	}
}

// json returns an object as get and watches send it.
func (r *resource) json(d *document) json.RawMessage {
	return append([]byte(r.head), d.body[1:]...)
}

func format(rv int64) string { return strconv.FormatInt(rv, 10) }
