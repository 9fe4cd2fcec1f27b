package rule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// entry is a rule that is to join a Set.
type entry struct {
	rule     int
	where    bool // has a where, so that the old state of an object counts too
	requires []expr.Condition
}

var (
	namespacePath = []string{"metadata", "namespace"}
	namePath      = []string{"metadata", "name"}
)

// namespaces returns those that the rule is about, or nil if it may be any.
func (e entry) namespaces() []string {
	for _, c := range e.requires {
		if slices.Equal(c.Path, namespacePath) {
			return c.Values
		}
	}
	return nil
}

// contradicts reports whether one of the conditions allows no value.
func (e entry) contradicts() bool {
	return slices.ContainsFunc(e.requires, func(c expr.Condition) bool {
		return len(c.Values) == 0
	})
}

// group finds some rules, each by one of its conditions. Its lists of rules are sorted.
type group struct {
	always            []int
	namespaces, names map[string][]int
	now               place // by the object's new state
	before            place // by its old state; holds those rules of now that have a where
}

func newGroup(entries []entry) *group {
	g := &group{namespaces: make(map[string][]int), names: make(map[string][]int)}
	sharing := countSharing(entries)
	for _, e := range entries {
		if len(e.requires) == 0 {
			g.always = append(g.always, e.rule)
			continue
		}
		g.add(e, slices.MinFunc(e.requires, func(a, b expr.Condition) int {
			return cmp.Or(
				cmp.Compare(sharing.cost(a, e.where), sharing.cost(b, e.where)),
				cmp.Compare(len(a.Values), len(b.Values)),
				cmp.Compare(len(b.Path), len(a.Path)), // a label selects more narrowly than a kind
			)
		}))
	}
	return g
}

func (g *group) add(e entry, by expr.Condition) {
	switch {
	case slices.Equal(by.Path, namespacePath):
		addTo(g.namespaces, by.Values, e.rule)
	case slices.Equal(by.Path, namePath):
		addTo(g.names, by.Values, e.rule)
	default:
		g.now.add(e.rule, by)
		if e.where {
			g.before.add(e.rule, by)
		}
	}
}

func addTo(rules map[string][]int, values []string, rule int) {
	for _, v := range values {
		rules[v] = append(rules[v], rule)
	}
}

// find appends the rules that may select a change because of its new state. It decodes the state
// only if a rule is found by a decoded field.
func (g *group) find(o *object.Object, look Lookup, found []int) []int {
	found = append(found, g.always...)
	found = append(found, g.namespaces[o.Namespace()]...)
	found = append(found, g.names[o.Name()]...)
	if !g.now.isEmpty() {
		found = g.now.find(look.Tree(o), found)
	}
	return found
}

// findBefore appends the rules that may select a change because of its old state, which tree
// decodes.
func (g *group) findBefore(o *object.Object, tree func(*object.Object) any, found []int) []int {
	if g.before.isEmpty() {
		return found
	}
	return g.before.find(tree(o), found)
}

// sharing counts the rules that require a value at a path.
type sharing map[requirement]int

type requirement struct{ path, value string }

func countSharing(entries []entry) sharing {
	s := make(sharing)
	for _, e := range entries {
		for _, c := range e.requires {
			path := quoted(c.Path)
			for _, v := range c.Values {
				s[requirement{path, v}]++
			}
		}
	}
	return s
}

func quoted(path []string) string { return fmt.Sprintf("%q", path) }

// The cost of reading a field, as a number of rules that could be evaluated instead. The new state
// is mostly decoded already, the old one is not.
const (
	newStateCost = 1
	oldStateCost = 16
)

// cost returns how many rules a lookup by c finds in the worst case, plus the cost of the lookup.
func (s sharing) cost(c expr.Condition, where bool) int {
	path, cost := quoted(c.Path), 0
	for _, v := range c.Values {
		cost = max(cost, s[requirement{path, v}])
	}
	switch {
	case slices.Equal(c.Path, namespacePath) || slices.Equal(c.Path, namePath):
		// known without decoding
		return cost
	case where:
		return cost + oldStateCost
	}
	return cost + newStateCost
}
