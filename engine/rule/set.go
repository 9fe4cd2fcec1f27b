package rule

import (
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
)

// Set finds the rules that may select a change. Its cost depends on the change and on how many
// rules it finds, not on how many there are. It finds a rule by fields that its where or when
// requires: by one field, and if many rules require the same value of it, by further fields. It
// always finds rules that require nothing it can look up.
// docs/reference/expressions.md explains this to authors of rules.
//
// For the old state of an update it reuses the result from when that state was new. For that it
// remembers about thirty bytes per object, if any of its rules is found by a decoded field.
// Otherwise its size grows with the rules' expressions only.
//
// A Set sees one change after the other. It is not safe for concurrent use.
type Set struct {
	rules    []*Rule
	anywhere finder            // rules about several namespaces or any
	within   map[string]finder // rules about one namespace, by its name
	before   memory
	found    []int
	scratch  []int
}

// finder finds rules by both states of a change.
type finder struct {
	now *group
	// before has the rules that the old state may find and the new one may not: those with a where
	// that are found by a decoded field. nil if there are none, and now if those are all.
	before *group
}

// findBefore appends the rules that s may find once it is the old state. now are those that it
// finds as the new one.
func (f finder) findBefore(s *state, now, found []int) []int {
	switch f.before {
	case nil:
		return found
	case f.now:
		return append(found, now...)
	}
	return f.before.find(s, found)
}

// NewSet makes a Set of rules. It keeps the slice.
func NewSet(rules []*Rule) *Set {
	var anywhere []entry
	within := make(map[string][]entry)
	for i, r := range rules {
		e := entry{rule: i, where: r.Where != nil, requires: r.requires(), copies: 1}
		namespaces := e.namespaces()
		switch {
		case e.contradicts(): // it never selects anything
		case len(namespaces) == 1:
			within[namespaces[0]] = append(within[namespaces[0]], e)
		default:
			anywhere = append(anywhere, e)
		}
	}
	s := &Set{
		rules: rules, anywhere: newFinder(anywhere),
		within: make(map[string]finder, len(within)),
	}
	for namespace, entries := range within {
		s.within[namespace] = newFinder(entries)
	}
	return s
}

func newFinder(entries []entry) finder {
	d := divider{byField: make(map[int]bool), shared: make(map[string]*list)}
	f := finder{now: d.group(entries, level{})}
	some := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		return !e.where || !d.byField[e.rule]
	})
	switch {
	case len(some) == 0:
	case len(some) == len(entries):
		f.before = f.now
	default:
		f.before = d.group(some, level{isDecoded: true})
	}
	return f
}

// Each calls f with each rule that may select d, and with its position, in the order of the rules.
// Member would return false for the others, or fail. d.Old has the namespace and name of d.Object.
func (s *Set) Each(d delta.Delta, look Lookup, f func(i int, r *Rule)) {
	within, ok := s.within[d.Object.Namespace()]
	now := state{object: d.Object, look: look}
	found := s.anywhere.now.find(&now, s.found[:0])
	anywhere := len(found)
	if ok {
		found = within.now.find(&now, found)
	}
	if s.anywhere.before != nil || within.before != nil {
		s.scratch = s.anywhere.findBefore(&now, found[:anywhere], s.scratch[:0])
		s.scratch = within.findBefore(&now, found[anywhere:], s.scratch)
		found = s.lookBack(d, look, within, found)
	}
	slices.Sort(found)
	s.found = slices.Compact(found) // both states may find the same rule
	for _, i := range s.found {
		f(i, s.rules[i])
	}
}

// lookBack appends the rules that may select d because of its old state. It remembers s.scratch,
// the rules that the new one may find later.
func (s *Set) lookBack(d delta.Delta, look Lookup, within finder, found []int) []int {
	if d.Old != nil && d.Old != d.Object {
		rules, ok := s.before.recall(d.Old)
		if ok {
			found = append(found, rules...)
		} else {
			old := state{object: d.Old, look: look, isOld: true}
			for _, g := range [...]*group{s.anywhere.before, within.before} {
				if g != nil {
					found = g.find(&old, found)
				}
			}
		}
	}
	if d.Type == delta.Deleted {
		s.before.forget(d.Object)
		return found
	}
	slices.Sort(s.scratch) // they come in any order, and states share lists
	s.scratch = slices.Compact(s.scratch)
	s.before.remember(d.Object, s.scratch)
	return found
}

// requires returns conditions that all hold of one state of each change that the rule selects: of
// the new state if there is no where, else of the new or the old one. Conditions of where and when
// go together because what when sees as object satisfies where: where adds an object in its new
// state, and deletes it in its old one. A timed rule has to see all changes of members, also those
// that it does not select.
func (r *Rule) requires() (out []expr.Condition) {
	for _, p := range []*expr.Program{r.Where, r.When} {
		if p != nil && (p == r.Where || !r.IsTimed()) {
			out = append(out, p.Requires()...)
		}
	}
	return out
}
