package rule

import (
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// Set finds the rules that may select a change without looking at the others: what that costs depends on the change and
// on how many rules are found, not on how many there are. A rule is looked up by what its where or its when requires of an
// object; one that requires nothing that can be looked up is always found. docs/reference/expressions.md tells authors of rules.
//
// The old state of an update is found by what it was found by as the new state of the change before. A Set remembers that
// of each object that there is, if any of its rules is looked up by what has to be decoded: some thirty bytes. Otherwise
// its size is in proportion to that of the rules' expressions.
//
// A Set is to be shown one change after the other; it is not safe for concurrent use.
type Set struct {
	rules    []*Rule
	anywhere *group            // rules about any namespace, or about several
	within   map[string]*group // rules about one namespace
	before   memory
	found    []int
	scratch  []int
}

// NewSet makes a Set of rules, which it keeps.
func NewSet(rules []*Rule) *Set {
	var anywhere []entry
	within := make(map[string][]entry)
	for i, r := range rules {
		e := entry{rule: i, where: r.Where != nil, requires: r.requires()}
		namespaces := e.namespaces()
		switch {
		case e.contradicts(): // it selects nothing, ever
		case len(namespaces) == 1:
			within[namespaces[0]] = append(within[namespaces[0]], e)
		default:
			anywhere = append(anywhere, e)
		}
	}
	s := &Set{rules: rules, anywhere: newGroup(anywhere), within: make(map[string]*group, len(within))}
	for namespace, entries := range within {
		s.within[namespace] = newGroup(entries)
	}
	return s
}

// Each calls f with the position of each rule that may select d, in the order of the rules. Match of a rule that is left out
// would say no, or fail. An Old has the namespace and name of its Object.
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
	s.found = slices.Compact(found) // the old and the new state may find the same
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
	slices.Sort(s.scratch) // they come in any order, and lists are shared
	s.before.remember(d.Object, s.scratch)
	return found
}

func (s *Set) looksBack(within *group) bool {
	return !s.anywhere.before.isEmpty() || within != nil && !within.before.isEmpty()
}

// requires are conditions all of which hold of one state of a change that the rule selects: of the new one where there
// is no where, else of the new or the old. Conditions of where and when go together, because what when sees as object
// satisfies where: what comes to do so is added in its new state, and what ceases to is deleted in its old.
func (r *Rule) requires() (out []expr.Condition) {
	for _, p := range []*expr.Program{r.Where, r.When} {
		if p != nil {
			out = append(out, p.Requires()...)
		}
	}
	return out
}
