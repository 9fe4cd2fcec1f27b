package object

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
)

// Compare orders objects by namespace, then by name.
func Compare(a, b *Object) int {
	return cmp.Or(strings.Compare(a.Namespace(), b.Namespace()), strings.Compare(a.Name(), b.Name()))
}

// maxLeaf bounds the objects of a leaf, and so what a change of a Sorted copies.
const maxLeaf = 256

// Sorted is a set of objects in the order of [Compare], with one object per key. The zero Sorted is
// empty. Put and Remove take a time that hardly grows with the set; Bucket takes none.
//
// Changes must not overlap each other or calls of Has and Bucket. Those may overlap each other.
type Sorted struct {
	leaves []*leaf // none is empty
	n      int
	age    uint64 // leaves of another age belong to Buckets, too
	// lent means that Buckets have the slice leaves and its leaves.
	lent atomic.Bool
}

// leaf is a part of a Sorted, with at most maxLeaf objects in order.
type leaf struct {
	age     uint64
	objects []*Object
}

// Bucket is a Sorted as it was at one moment. It is immutable, and the zero Bucket is empty.
type Bucket struct {
	leaves []*leaf
	only   *Object // instead of leaves, if it is the only object
	n      int
}

// BucketOf returns a Bucket of objects that are in the order of [Compare], with one object per key.
// It keeps the slice.
func BucketOf(objects []*Object) Bucket {
	if len(objects) == 0 {
		return Bucket{}
	}
	return Bucket{leaves: []*leaf{{objects: objects}}, n: len(objects)}
}

// BucketOfOne returns a Bucket of one object.
func BucketOfOne(o *Object) Bucket { return Bucket{only: o, n: 1} }

// Len returns how many objects the Bucket has.
func (b Bucket) Len() int { return b.n }

// All yields the objects in order. It takes no time for those that the caller does not get to.
func (b Bucket) All() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		if b.only != nil {
			yield(b.only)
			return
		}
		for _, l := range b.leaves {
			for _, o := range l.objects {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Collect returns the objects in a new slice, in order.
func (b Bucket) Collect() []*Object {
	return slices.AppendSeq(make([]*Object, 0, b.n), b.All())
}

// Parts returns the objects in order, in slices that the caller must not change.
func (b Bucket) Parts() [][]*Object {
	if b.only != nil {
		return [][]*Object{{b.only}}
	}
	parts := make([][]*Object, len(b.leaves))
	for i, l := range b.leaves {
		parts[i] = l.objects
	}
	return parts
}

// Join returns the objects of several Buckets. No namespace may have objects in two of them.
func Join(buckets []Bucket) Bucket {
	if len(buckets) == 1 {
		return buckets[0]
	}
	buckets = slices.DeleteFunc(slices.Clone(buckets), func(b Bucket) bool { return b.n == 0 })
	switch len(buckets) {
	case 0:
		return Bucket{}
	case 1:
		return buckets[0]
	}
	slices.SortFunc(buckets, func(a, b Bucket) int { return Compare(a.first(), b.first()) })
	var all Bucket
	for _, b := range buckets {
		if b.only != nil {
			b.leaves = []*leaf{{objects: []*Object{b.only}}}
		}
		all.leaves, all.n = append(all.leaves, b.leaves...), all.n+b.n
	}
	return all
}

// first returns the first object of a Bucket that has one.
func (b Bucket) first() *Object {
	if b.only != nil {
		return b.only
	}
	return b.leaves[0].objects[0]
}

// Len returns how many objects the set has.
func (s *Sorted) Len() int { return s.n }

// Bucket returns the set as it is now.
func (s *Sorted) Bucket() Bucket {
	s.lent.Store(true)
	return Bucket{leaves: s.leaves, n: s.n}
}

// Has reports whether the set has this very object.
func (s *Sorted) Has(o *Object) bool {
	at, i, ok := s.find(o)
	return ok && s.leaves[at].objects[i] == o
}

// Put adds an object, in the place of one with the same key if there is one.
func (s *Sorted) Put(o *Object) {
	if len(s.leaves) == 0 {
		s.leaves, s.n = []*leaf{{s.age, []*Object{o}}}, 1
		s.lent.Store(false)
		return
	}
	at, i, ok := s.find(o)
	l := s.own(at)
	if ok {
		l.objects[i] = o
		return
	}
	s.n++
	if len(l.objects) == maxLeaf {
		const half = maxLeaf / 2
		right := &leaf{s.age, slices.Clone(l.objects[half:])}
		l.objects = slices.Clone(l.objects[:half])
		s.leaves = slices.Insert(s.leaves, at+1, right)
		if i > half {
			l, i = right, i-half
		}
	}
	l.objects = slices.Insert(l.objects, i, o)
}

// Remove removes the object with o's key.
func (s *Sorted) Remove(o *Object) {
	at, i, ok := s.find(o)
	if !ok {
		return
	}
	s.n--
	l := s.own(at)
	l.objects = slices.Delete(l.objects, i, i+1)
	if len(l.objects) >= maxLeaf/4 {
		return
	}
	if len(l.objects) == 0 {
		s.leaves = slices.Delete(s.leaves, at, at+1)
		return
	}
	// Small leaves join a neighbour, so that a set that shrinks does not keep their memory.
	for _, left := range []int{at - 1, at} {
		if left >= 0 && left+1 < len(s.leaves) && s.join(left) {
			return
		}
	}
}

// join makes one leaf of two neighbours, if together they are small. The slice of leaves is the
// set's own.
func (s *Sorted) join(left int) bool {
	a, b := s.leaves[left].objects, s.leaves[left+1].objects
	if len(a)+len(b) > maxLeaf/2 {
		return false
	}
	s.leaves[left] = &leaf{s.age, slices.Concat(a, b)}
	s.leaves = slices.Delete(s.leaves, left+1, left+2)
	return true
}

// find returns the leaf in which an object with o's key is or belongs, its place there, and whether
// it is there. The set must not be empty unless the caller looks at ok alone.
func (s *Sorted) find(o *Object) (at, i int, ok bool) {
	after, _ := slices.BinarySearchFunc(s.leaves, o, func(l *leaf, o *Object) int {
		if Compare(l.objects[0], o) > 0 {
			return 1
		}
		return -1
	})
	if at = max(0, after-1); at == len(s.leaves) {
		return 0, 0, false
	}
	i, ok = slices.BinarySearchFunc(s.leaves[at].objects, o, Compare)
	return at, i, ok
}

// own returns a leaf that no Bucket has, and makes the slice of leaves the set's own.
func (s *Sorted) own(at int) *leaf {
	if s.lent.Load() {
		s.lent.Store(false)
		s.age++
		s.leaves = slices.Clone(s.leaves)
	}
	l := s.leaves[at]
	if l.age != s.age {
		l = &leaf{s.age, slices.Clone(l.objects)}
		s.leaves[at] = l
	}
	return l
}
