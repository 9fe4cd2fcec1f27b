package evaluate

import (
	"time"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

// Cache is a source whose objects can be found through an index. It is safe for concurrent use.
type Cache interface {
	// ByIndex returns the objects that have a value in an index, sorted by key. It returns an error
	// for an unknown index.
	ByIndex(index, value string) (object.Bucket, error)
}

// Reading is a cache, and the paths of its objects that a rule's expressions read.
type Reading struct {
	Cache Cache
	Paths *object.Paths
}

// Caches are the caches that the expressions of one rule read.
type Caches struct {
	Own    Reading            // the rule's own source, for byIndex
	Others map[string]Reading // by the source's name, for lookup
}

// find returns the objects that have a value in an index, as they are now. It decodes each object
// only when the caller gets to it. found, which may be nil, records which object each tree belongs
// to.
func (r Reading) find(index, value string, found *rule.Found) expr.Found {
	if r.Cache == nil {
		return expr.Found{}
	}
	bucket, err := r.Cache.ByIndex(index, value)
	if err != nil { // cannot happen: the expression was compiled with the name
		return expr.Found{}
	}
	return expr.Found{Len: bucket.Len(), Trees: func(yield func(any) bool) {
		for o := range bucket.All() {
			tree := o.Decode(r.Paths)
			if found != nil {
				found.Add(tree, o)
			}
			if !yield(tree) {
				return
			}
		}
	}}
}

// Scope is what the expressions of one rule can read besides a change. Several rules use one Scope
// in turn, so that an object is decoded once. It implements [rule.Lookup] and is not safe for
// concurrent use.
type Scope struct {
	object, old *object.Decoder
	caches      *Caches
	now         time.Time
	found       *rule.Found // records which object each tree belongs to, unless nil
}

// NewScope returns a Scope that decodes objects with current, and old states with old.
func NewScope(current, old *object.Decoder) *Scope {
	return &Scope{object: current, old: old}
}

// Enter sets the caches and the time of the next evaluation.
func (s *Scope) Enter(caches *Caches, now time.Time) { s.caches, s.now = caches, now }

// Scope returns a new Scope for one evaluation with these caches, at this time.
func (c *Caches) Scope(now time.Time) *Scope {
	decoder := object.NewDecoder(c.Own.Paths)
	return &Scope{object: decoder, old: decoder, caches: c, now: now}
}

// Finder is a Scope that knows which object each of its trees belongs to. It implements
// [rule.Finder].
type Finder struct{ *Scope }

// Finder returns a new Finder for one evaluation with these caches, at this time.
func (c *Caches) Finder(now time.Time) Finder {
	s := c.Scope(now)
	s.found = new(rule.Found)
	return Finder{s}
}

// Object implements rule.Finder.
func (f Finder) Object(tree map[string]any) *object.Object { return f.found.Object(tree) }

// Forget releases the decoded objects.
func (s *Scope) Forget() {
	s.object.Forget()
	s.old.Forget()
}

// Tree implements rule.Lookup.
func (s *Scope) Tree(o *object.Object) any { return s.note(s.object.Tree(o), o) }

// Old implements rule.Lookup.
func (s *Scope) Old(o *object.Object) any { return s.note(s.old.Tree(o), o) }

// note records which object a tree belongs to, if the Scope belongs to a Finder.
func (s *Scope) note(tree any, o *object.Object) any {
	if s.found != nil && o != nil {
		s.found.Add(tree, o)
	}
	return tree
}

// Now implements rule.Lookup.
func (s *Scope) Now() time.Time { return s.now }

// ByIndex implements expr.Cache.
func (s *Scope) ByIndex(index, value string) expr.Found {
	return s.caches.Own.find(index, value, s.found)
}

// Lookup implements expr.Cache.
func (s *Scope) Lookup(source, index, value string) expr.Found {
	return s.caches.Others[source].find(index, value, s.found)
}
