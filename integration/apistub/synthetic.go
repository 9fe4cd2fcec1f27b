package apistub

import (
	"iter"
	"math/big"
	"sort"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Synthetic computes the objects of a synthetic resource whenever the Server sends them. Its
// methods must be safe for concurrent use and return the same object for the same arguments.
type Synthetic interface {
	// Len returns how many objects there are, fewer than 2³¹-1.
	Len() int
	// Identity returns the namespace, name and labels of object i, which updates do not change. The
	// Server does not modify the labels.
	Identity(i int) (namespace, name string, labels labels.Set)
	// Append appends object i after so many updates: compact JSON with that resourceVersion,
	// without kind and apiVersion.
	Append(b []byte, i, updates int, resourceVersion int64) []byte
}

// Synthesize serves a synthetic resource from now on and replaces what was served under that name.
// Object i has the resourceVersion first+i. Nothing is added or deleted, the history is complete
// until Expire, and lists are in the order of i.
func (s *Server) Synthesize(
	gvr schema.GroupVersionResource, kind string, namespaced bool,
	objects Synthetic) (first int64) {
	s.set(func() {
		if old := s.resources[gvr]; old != nil {
			s.drop(old)
		}
		first = s.rv + 1
		res := newResource(gvr, kind, namespaced)
		res.contents = newSynthetic(objects, first)
		s.resources[gvr] = res
		s.rv += int64(objects.Len())
	})
	return first
}

// Update updates n objects of a synthetic resource, each in its turn (see [Turn]). Their
// resourceVersions count up from first.
func (s *Server) Update(gvr schema.GroupVersionResource, n int) (first int64) {
	s.tb.Helper()
	s.set(func() {
		res := s.resources[gvr]
		made, ok := (*synthetic)(nil), false
		if res != nil {
			made, ok = res.contents.(*synthetic)
		}
		if !ok || made.n == 0 {
			s.tb.Fatalf("apistub: %v is not synthetic, or empty", gvr)
		}
		first = s.rv + 1
		made.begin(first)
		made.updates += n
		s.rv += int64(n)
	})
	return first
}

// Turn returns which of n objects the k-th update changes, counted from 0, and how many updates
// that object has had with it. All objects take turns, but not in the order of their numbers.
func Turn(n, k int) (i, updates int) {
	return k % n * (stride % n) % n, k/n + 1
}

// stride is a prime greater than any n, so that multiples of it meet every object.
const stride = 1<<31 - 1

// synthetic has the contents of a synthetic resource. Its history is a function of the number of
// updates. A place is a number.
type synthetic struct {
	Synthetic
	n       int
	back    int   // the inverse of Turn's stride: i*back is i's turn
	first   int64 // resourceVersion, of object 0
	updates int   // so far
	floor   int64

	// The resourceVersions of updates go up by one from each of these on, until the next of them.
	runs []run
}

type run struct {
	update int
	rv     int64
}

func newSynthetic(objects Synthetic, first int64) *synthetic {
	n := objects.Len()
	back := big.NewInt(0) // of none or one
	if n > 1 {
		back.ModInverse(big.NewInt(stride), big.NewInt(int64(n)))
	}
	return &synthetic{
		Synthetic: objects, n: n, back: int(back.Int64()),
		first: first, floor: first + int64(n) - 1,
	}
}

// begin notes that the next update's resourceVersion is rv.
func (s *synthetic) begin(rv int64) {
	last := len(s.runs) - 1
	if last >= 0 && s.runs[last].rv+int64(s.updates-s.runs[last].update) == rv {
		return
	}
	s.runs = append(s.runs, run{s.updates, rv})
}

// history returns a copy for use without the lock: runs only grows.
func (s *synthetic) history() *synthetic {
	now := *s
	return &now
}

// version returns the resourceVersion of an update.
func (s *synthetic) version(update int) int64 {
	r := s.runs[sort.Search(len(s.runs), func(i int) bool { return s.runs[i].update > update })-1]
	return r.rv + int64(update-r.update)
}

// upTo returns how many updates there were at a resourceVersion.
func (s *synthetic) upTo(rv int64) int {
	i := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].rv > rv })
	if i == 0 {
		return 0
	}
	end := s.updates
	if i < len(s.runs) {
		end = s.runs[i].update
	}
	return min(s.runs[i-1].update+int(rv-s.runs[i-1].rv)+1, end)
}

// state returns how many updates object i has had after so many in all, and its resourceVersion.
func (s *synthetic) state(i, updates int) (own int, rv int64) {
	turn := i * s.back % s.n
	if updates <= turn {
		return 0, s.first + int64(i)
	}
	rounds := (updates - 1 - turn) / s.n
	return rounds + 1, s.version(turn + rounds*s.n)
}

// fill makes d object i. It uses d's body again.
func (s *synthetic) fill(d *document, i, updates int, rv int64) {
	d.namespace, d.name, d.labels = s.Identity(i)
	d.body = s.Append(d.body[:0], i, updates, rv)
}

func (s *synthetic) get(namespace, name string) *document {
	for i := range s.n {
		if ns, n, _ := s.Identity(i); n == name && ns == namespace {
			d := &document{}
			own, rv := s.state(i, s.updates)
			s.fill(d, i, own, rv)
			return d
		}
	}
	return nil
}

func (s *synthetic) at(rv int64, after string, q *request) (snapshot, bool) {
	if rv < s.floor {
		return snapshot{}, false
	}
	from, now, updates := 0, s.history(), s.upTo(rv)
	if after != "" {
		last, err := strconv.Atoi(after)
		if err != nil || last < 0 {
			return snapshot{}, false // a place that was never given
		}
		from = last + 1
	}
	return snapshot{count: -1, docs: func(yield func(string, *document) bool) {
		d := &document{}
		for i := from; i < now.n; i++ {
			own, rv := now.state(i, updates)
			if now.fill(d, i, own, rv); q.sees(d) && !yield(strconv.Itoa(i), d) {
				return
			}
		}
	}}, true
}

func (s *synthetic) since(rv int64) (iter.Seq[event], bool) {
	if rv < s.floor {
		return nil, false
	}
	now, from := s.history(), s.upTo(rv)
	return func(yield func(event) bool) {
		d := &document{}
		for k := from; k < now.updates; k++ {
			i, own := Turn(now.n, k)
			rv := now.version(k)
			now.fill(d, i, own, rv)
			if !yield(event{rv: rv, prev: d, doc: d}) {
				return
			}
		}
	}, true
}

func (s *synthetic) oldest() int64   { return s.floor }
func (s *synthetic) expire(rv int64) { s.floor = rv }
func (s *synthetic) trim(int)        {}
