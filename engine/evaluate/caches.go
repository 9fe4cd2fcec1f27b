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

// find yields the objects that an index has under a value, each decoded when it is asked for. found,
// which may be nil, learns which object each tree belongs to.
func (r Reading) find(index, value string, found *rule.Found) iter.Seq[any] {
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
	found       *rule.Found // learns which object each tree belongs to; nil: nobody asks
}

// NewScope returns a Scope that decodes objects with current, and old states with old.
func NewScope(current, old *object.Decoder) *Scope {
	return &Scope{object: current, old: old}
}

// Enter makes the Scope that of a rule with these caches, at this time.
func (s *Scope) Enter(caches *Caches, now time.Time) { s.caches, s.now = caches, now }

// Scope returns a Scope of one evaluation with these caches, at this time.
func (c *Caches) Scope(now time.Time) *Scope {
	decoder := object.NewDecoder(c.Own.Paths)
	return &Scope{object: decoder, old: decoder, caches: c, now: now}
}

// Finder is a Scope that knows which object each of its trees belongs to. It implements [rule.Finder].
type Finder struct{ *Scope }

// Finder returns a Finder of one evaluation with these caches, at this time.
func (c *Caches) Finder(now time.Time) Finder {
	s := c.Scope(now)
	s.found = new(rule.Found)
	return Finder{s}
}

// Object implements rule.Finder.
func (f Finder) Object(tree map[string]any) *object.Object { return f.found.Object(tree) }

// Forget releases what was decoded.
func (s *Scope) Forget() {
	s.object.Forget()
	s.old.Forget()
}

// Tree implements rule.Lookup.
func (s *Scope) Tree(o *object.Object) any { return s.note(s.object.Tree(o), o) }

// Old implements rule.Lookup.
func (s *Scope) Old(o *object.Object) any { return s.note(s.old.Tree(o), o) }

// note remembers which object a tree belongs to, if somebody asks.
func (s *Scope) note(tree any, o *object.Object) any {
	if s.found != nil && o != nil {
		s.found.Add(tree, o)
	}
	return tree
}

// Now implements rule.Lookup.
func (s *Scope) Now() time.Time { return s.now }

// ByIndex implements expr.Cache.
func (s *Scope) ByIndex(index, value string) iter.Seq[any] {
	return s.caches.Own.find(index, value, s.found)
}

// Lookup implements expr.Cache.
func (s *Scope) Lookup(source, index, value string) iter.Seq[any] {
	return s.caches.Others[source].find(index, value, s.found)
}
