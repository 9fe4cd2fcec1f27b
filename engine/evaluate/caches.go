package evaluate

import (
	"iter"
	"time"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

// Cache is a source whose objects can be found by an index. It is safe for concurrent use.
type Cache interface {
	// ByIndex returns the objects that an index has under a value, sorted by key. The error is that
	// of an unknown index.
	ByIndex(index, value string) ([]*object.Object, error)
}

// Reading is a cache, and the paths that a rule's expressions read of its objects.
type Reading struct {
	Cache Cache
	Paths *object.Paths
}

// Caches are what the expressions of one rule look into.
type Caches struct {
	Own    Reading            // the rule's own source: byIndex
	Others map[string]Reading // by the source's name: lookup
}

// Find yields the objects that an index has under a value, each decoded when it is asked for. found,
// which may be nil, learns which object each tree belongs to.
func (r Reading) Find(index, value string, found *rule.Found) iter.Seq[any] {
	return func(yield func(any) bool) {
		if r.Cache == nil {
			return
		}
		objects, err := r.Cache.ByIndex(index, value)
		if err != nil { // no such index: the expression was compiled with its name
			return
		}
		for _, o := range objects {
			tree := o.Decode(r.Paths)
			if found != nil {
				found.Add(tree, o)
			}
			if !yield(tree) {
				return
			}
		}
	}
}

// Scope is what the expressions of one rule see beside a change. Several rules use one Scope in turn,
// so that an object is decoded once. It implements [rule.Lookup] and is not safe for concurrent use.
type Scope struct {
	object, old *object.Decoder
	caches      *Caches
	now         time.Time
}

// NewScope returns a Scope that decodes objects with current, and old states with old.
func NewScope(current, old *object.Decoder) *Scope {
	return &Scope{object: current, old: old}
}

// Enter makes the Scope that of a rule with these caches, at this time.
func (s *Scope) Enter(caches *Caches, now time.Time) { s.caches, s.now = caches, now }

// Forget releases what was decoded.
func (s *Scope) Forget() {
	s.object.Forget()
	s.old.Forget()
}

// Tree implements rule.Lookup.
func (s *Scope) Tree(o *object.Object) any { return s.object.Tree(o) }

// Old implements rule.Lookup.
func (s *Scope) Old(o *object.Object) any { return s.old.Tree(o) }

// Now implements rule.Lookup.
func (s *Scope) Now() time.Time { return s.now }

// ByIndex implements expr.Cache.
func (s *Scope) ByIndex(index, value string) iter.Seq[any] {
	return s.caches.Own.Find(index, value, nil)
}

// Lookup implements expr.Cache.
func (s *Scope) Lookup(source, index, value string) iter.Seq[any] {
	return s.caches.Others[source].Find(index, value, nil)
}
