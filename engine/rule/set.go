package rule

import (
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// Set finds the rules that may select a change. Its cost depends on the change and on how many
// rules it finds, not on how many there are. It finds a rule by what its where or when requires of
// an object. It always finds rules that require nothing it can look up.
// docs/reference/expressions.md explains this to authors of rules.
//
// It finds the old state of an update by what it found when that state was new. For that it
// remembers about thirty bytes per object, if any of its rules is found by a decoded field.
// Otherwise its size grows with the rules' expressions only.
//
// A Set sees one change after the other. It is not safe for concurrent use.
type Set struct {
	rules    []*Rule
	anywhere *group            // rules about several namespaces or any
	within   map[string]*group // rules about one namespace, by its name
	before   memory
	found    []int
	scratch  []int
}

// NewSet makes a Set of rules. It keeps the slice.
func NewSet(rules []*Rule) *Set {
	var anywhere []entry
	within := make(map[string][]entry)
	for i, r := range rules {
		e := entry{rule: i, where: r.Where != nil, requires: r.requires()}
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
		rules: rules, anywhere: newGroup(anywhere),
		within: make(map[string]*group, len(within)),
	}
	for namespace, entries := range within {
		s.within[namespace] = newGroup(entries)
	}
	return s
}

// Each calls f with each rule that may select d, and with its position, in the order of the rules.
// Match would return false for the others, or fail. d.Old has the namespace and name of d.Object.
func (s *Set) Each(d delta.Delta, look Lookup, f func(i int, r *Rule)) {
	within := s.within[d.Object.Namespace()]
	found := s.anywhere.find(d.Object, look, s.found[:0])
	if within != nil {
		found = within.find(d.Object, look, found)
	}
	if s.looksBack(within) {
		found = s.lookBack(d, look, within, found)
	}
	slices.Sort(found)
	s.found = slices.Compact(found) // both states may find the same rule
	for _, i := range s.found {
		f(i, s.rules[i])
	}
}

// lookBack appends the rules that may select d because of its old state, and remembers the new one.
func (s *Set) lookBack(d delta.Delta, look Lookup, within *group, found []int) []int {
	before := func(o *object.Object, tree func(*object.Object) any, found []int) []int {
		found = s.anywhere.findBefore(o, tree, found)
		if within != nil {
			found = within.findBefore(o, tree, found)
		}
		return found
	}
	if d.Old != nil && d.Old != d.Object {
		rules, ok := s.before.recall(d.Old)
		if ok {
			found = append(found, rules...)
		} else {
			found = before(d.Old, look.Old, found)
		}
	}
	if d.Type == delta.Deleted {
		s.before.forget(d.Object)
		return found
	}
	s.scratch = before(d.Object, look.Tree, s.scratch[:0])
	slices.Sort(s.scratch) // they come in any order, and states share lists
	s.before.remember(d.Object, s.scratch)
	return found
}

func (s *Set) looksBack(within *group) bool {
	return !s.anywhere.before.isEmpty() || within != nil && !within.before.isEmpty()
}

// requires returns conditions that all hold of one state of each change that the rule selects: of
// the new state if there is no where, else of the new or the old one. Conditions of where and when
// go together because what when sees as object satisfies where: where adds an object in its new
// state, and deletes it in its old one.
func (r *Rule) requires() (out []expr.Condition) {
	for _, p := range []*expr.Program{r.Where, r.When} {
		if p != nil {
			out = append(out, p.Requires()...)
		}
	}
	return out
}
