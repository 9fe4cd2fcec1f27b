package apistub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is one served GVR. The server's mu guards it.
type resource struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
	objects    map[string]*document // by namespace/name

	// events are changes in order of resourceVersion. All since floor are among them.
	events []event
	floor  int64
}

// event is one change: an addition if prev is nil, a deletion if doc is nil.
type event struct {
	rv        int64
	prev, doc *document
}

// Serve serves a resource from now on, without objects. It does nothing if it is served already.
func (s *Server) Serve(gvr schema.GroupVersionResource, kind string, namespaced bool) {
	s.set(func() {
		if s.resources[gvr] == nil {
			s.resources[gvr] = &resource{
				gvr: gvr, kind: kind, namespaced: namespaced,
				objects: map[string]*document{}, floor: s.rv,
			}
		}
	})
}

// Withdraw stops serving a resource: its objects are gone without an event, its watches end, requests for it get 404
// and discovery does not list it. Delete the objects first to have it as when a CRD is deleted in good order.
func (s *Server) Withdraw(gvr schema.GroupVersionResource) {
	s.set(func() {
		if res := s.resources[gvr]; res != nil {
			delete(s.resources, gvr)
			s.drop(res)
		}
	})
}

// Apply creates an object, or replaces the one of that name, and returns it as stored. Every call is a change. obj is
// JSON ([]byte or string) or what marshals to it. The server sets apiVersion, kind and resourceVersion; where they are
// missing also the namespace ("default"), creationTimestamp and uid, those of the object replaced if there is one. So
// another uid makes it another object behind an update, as a watch sees it that missed the deletion.
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

// Load applies n objects at once: no list shows some of them without the others. object makes the i-th of them; nil
// makes small ones that are called load-000000, load-000001, ….
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
		res := s.served(gvr)
		key := namespace + "/" + name
		prev := res.objects[key]
		if prev == nil {
			s.tb.Fatalf("apistub: delete: no %s %q", gvr.Resource, key)
		}
		delete(res.objects, key)
		s.rv++
		res.record(event{rv: s.rv, prev: prev}, s.history)
	})
}

func (s *Server) served(gvr schema.GroupVersionResource) *resource {
	s.tb.Helper()
	res := s.resources[gvr]
	if res == nil {
		s.tb.Fatalf("apistub: %v is not served", gvr)
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
	prev := res.objects[d.key()]
	s.rv++
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", s.rv)
	created := time.Now().UTC().Format(time.RFC3339)
	if prev != nil {
		uid, created = prev.uid, prev.created
	}
	d.finish(uid, created, s.rv)
	res.objects[d.key()] = d
	res.record(event{rv: s.rv, prev: prev, doc: d}, s.history)
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

func (r *resource) record(e event, bound int) {
	r.events = append(r.events, e)
	r.trim(bound)
}

// trim forgets all but the newest bound events. The slice is cut when a quarter of it is forgotten, to be cheap.
func (r *resource) trim(bound int) {
	drop := len(r.events) - bound
	if drop <= 0 {
		return
	}
	r.floor = max(r.floor, r.events[drop-1].rv)
	if drop > bound/4 {
		r.events = slices.Delete(r.events, 0, drop)
	}
}

func (r *resource) expire(rv int64) {
	r.events, r.floor = nil, rv
}

// since is what happened after rv, oldest first, or false if that is forgotten. The slice is a copy.
func (r *resource) since(rv int64) ([]event, bool) {
	if rv < r.floor {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(r.events, rv+1, func(e event, rv int64) int { return cmp.Compare(e.rv, rv) })
	return slices.Clone(r.events[i:]), true
}

// at is what a request sees of the objects as they were at rv, in order of their keys, or false if that is forgotten.
func (r *resource) at(rv int64, see func(*document) bool) ([]*document, bool) {
	events, ok := r.since(rv)
	if !ok {
		return nil, false
	}
	undone := map[string]*document{}
	for _, e := range slices.Backward(events) {
		undone[cmp.Or(e.doc, e.prev).key()] = e.prev
	}
	var docs []*document
	for key, d := range r.objects {
		if _, changed := undone[key]; !changed && see(d) {
			docs = append(docs, d)
		}
	}
	for _, d := range undone {
		if d != nil && see(d) {
			docs = append(docs, d)
		}
	}
	slices.SortFunc(docs, func(a, b *document) int { return strings.Compare(a.key(), b.key()) })
	return docs, true
}

// json is an object as get and watches send it.
func (r *resource) json(d *document) json.RawMessage {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,`, r.kind, r.gvr.GroupVersion())
	b.Write(d.body[1:])
	return b.Bytes()
}

func format(rv int64) string { return strconv.FormatInt(rv, 10) }
