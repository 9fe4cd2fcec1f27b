package apistub

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// stored keeps objects. A place is an object's key.
type stored struct {
	objects map[string]*document // by key

	// events has the changes after floor, in the order of their resourceVersions.
	events []event
	floor  int64
}

func (r *stored) get(namespace, name string) *document { return r.objects[namespace+"/"+name] }

func (r *stored) record(e event, bound int) {
	r.events = append(r.events, e)
	r.trim(bound)
}

// trim forgets all but the newest bound events. To be cheap, it cuts the slice only when a quarter
// of it is forgotten.
func (r *stored) trim(bound int) {
	drop := len(r.events) - bound
	if drop <= 0 {
		return
	}
	r.floor = max(r.floor, r.events[drop-1].rv)
	if drop > bound/4 {
		r.events = slices.Delete(r.events, 0, drop)
	}
}

func (r *stored) expire(rv int64) {
	r.events, r.floor = nil, rv
}

// restore undoes what came after rv. It returns false if that is forgotten.
func (r *stored) restore(rv int64) bool {
	events, ok := r.after(rv)
	for _, e := range slices.Backward(events) {
		if key := cmp.Or(e.doc, e.prev).key(); e.prev == nil {
			delete(r.objects, key)
		} else {
			r.objects[key] = e.prev
		}
	}
	r.events = r.events[:len(r.events)-len(events)]
	return ok
}

func (r *stored) oldest() int64 { return r.floor }

func (r *stored) since(rv int64) (iter.Seq[event], bool) {
	events, ok := r.after(rv)
	return slices.Values(slices.Clone(events)), ok
}

// after is since, in place.
func (r *stored) after(rv int64) ([]event, bool) {
	if rv < r.floor {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(r.events, rv+1, func(e event, rv int64) int {
		return cmp.Compare(e.rv, rv)
	})
	return r.events[i:], true
}

func (r *stored) at(rv int64, after string, q *request) (snapshot, bool) {
	events, ok := r.after(rv)
	if !ok {
		return snapshot{}, false
	}
	undone := map[string]*document{}
	for _, e := range slices.Backward(events) {
		undone[cmp.Or(e.doc, e.prev).key()] = e.prev
	}
	var docs []*document
	see := func(key string, d *document) {
		if key > after && q.sees(d) {
			docs = append(docs, d)
		}
	}
	for key, d := range r.objects {
		if _, changed := undone[key]; !changed {
			see(key, d)
		}
	}
	for key, d := range undone {
		see(key, d)
	}
	slices.SortFunc(docs, func(a, b *document) int { return strings.Compare(a.key(), b.key()) })
	return snapshot{count: len(docs), docs: func(yield func(string, *document) bool) {
		for _, d := range docs {
			if !yield(d.key(), d) {
				return
			}
		}
	}}, true
}
