package rule

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// entry is a rule that is to join a group.
type entry struct {
	rule     int
	where    bool // has a where, so that the old state of an object counts too
	requires []expr.Condition
	copies   int // how many lists of one group hold the rule
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

// without returns the entry as it joins the group below one of its conditions.
func (e entry) without(by expr.Condition) entry {
	e.copies *= len(by.Values)
	e.requires = slices.DeleteFunc(slices.Clone(e.requires), func(c expr.Condition) bool {
		return slices.Equal(c.Path, by.Path)
	})
	return e
}

// group finds some rules, each by one of its conditions.
type group struct {
	always            []int
	namespaces, names map[string]*list
	fields            place
}

// list is the rules that one value of a condition finds. If they are many and require more, a group
// distinguishes them by that.
type list struct {
	rules []int
	apart *group // nil if rules are all
}

const (
	// fewRules are not worth a group of their own.
	fewRules = 8
	// maxCopies bounds the lists of one group that hold one rule, because groups below each other
	// multiply the values of its conditions.
	maxCopies = 4096
)

// state is one state of an object. Its fields are decoded when a group asks for one.
type state struct {
	object *object.Object
	look   Lookup
	isOld  bool
}

func (s *state) tree() any {
	if s.isOld {
		return s.look.Old(s.object)
	}
	return s.look.Tree(s.object)
}

// find appends the rules that may select a change because of a state of its object. It decodes the
// state only if a rule is found by a decoded field. A rule may be appended more than once.
func (g *group) find(s *state, found []int) []int {
	found = append(found, g.always...)
	if len(g.namespaces) > 0 {
		found = g.namespaces[s.object.Namespace()].find(s, found)
	}
	if len(g.names) > 0 {
		found = g.names[s.object.Name()].find(s, found)
	}
	if !g.fields.isEmpty() {
		found = g.fields.find(s.tree(), s, found)
	}
	return found
}

// find appends the rules of the list. A nil list has none.
func (l *list) find(s *state, found []int) []int {
	switch {
	case l == nil:
		return found
	case l.apart != nil:
		return l.apart.find(s, found)
	}
	return append(found, l.rules...)
}

// divider makes groups.
type divider struct {
	// byField has the rules that a group finds by a decoded field.
	byField map[int]bool
	// shared has lists without a group of their own, by their rules: many values may find the same.
	shared map[string]*list
}

// level is where a group is to be.
type level struct {
	isBelow   bool // below a condition of another group, which may as well evaluate all its rules
	isDecoded bool // where decoding an old state costs nothing more
}

// group makes a group of rules.
func (d *divider) group(entries []entry, at level) *group {
	g := new(group)
	sharing := countSharing(entries)
	found := make(map[string]*byPath)
	for _, e := range entries {
		by, ok := sharing.choose(e, at, len(entries))
		if !ok {
			g.always = append(g.always, e.rule)
			continue
		}
		key := keyOf(by.Path)
		if found[key] == nil {
			found[key] = &byPath{path: by.Path, entries: make(map[string][]entry)}
		}
		found[key].add(e, by)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		switch p := found[key]; {
		case slices.Equal(p.path, namespacePath):
			g.namespaces = d.lists(p, level{true, at.isDecoded})
		case slices.Equal(p.path, namePath):
			g.names = d.lists(p, level{true, at.isDecoded})
		default:
			for _, rule := range p.rules {
				d.byField[rule] = true
			}
			g.fields.put(p.path, p.rules, d.lists(p, level{true, true}))
		}
	}
	return g
}

// byPath are the rules that a group finds by one path.
type byPath struct {
	path    []string
	rules   []int
	entries map[string][]entry // by the value; as they join a group below
}

func (p *byPath) add(e entry, by expr.Condition) {
	p.rules = append(p.rules, e.rule)
	e = e.without(by)
	for _, v := range by.Values {
		p.entries[v] = append(p.entries[v], e)
	}
}

// lists makes the lists of a path, by value.
func (d *divider) lists(p *byPath, at level) map[string]*list {
	lists := make(map[string]*list, len(p.entries))
	for value, entries := range p.entries {
		l := new(list)
		if len(entries) > fewRules {
			if g := d.group(entries, at); len(g.always) < len(entries) {
				l.apart = g
			}
		}
		if l.apart == nil {
			l = d.list(entries)
		}
		lists[value] = l
	}
	return lists
}

// list returns the list of just these entries.
func (d *divider) list(entries []entry) *list {
	var key []byte
	for _, e := range entries {
		key = binary.AppendUvarint(key, uint64(e.rule))
	}
	l := d.shared[string(key)]
	if l == nil {
		l = &list{rules: make([]int, len(entries))}
		for i, e := range entries {
			l.rules[i] = e.rule
		}
		d.shared[string(key)] = l
	}
	return l
}

// sharing counts the rules that require a value at a path.
type sharing map[requirement]int

type requirement struct{ path, value string }

func countSharing(entries []entry) sharing {
	s := make(sharing)
	for _, e := range entries {
		for _, c := range e.requires {
			path := keyOf(c.Path)
			for _, v := range c.Values {
				s[requirement{path, v}]++
			}
		}
	}
	return s
}

// keyOf returns a text that is different for each path.
func keyOf(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteString(strings.ReplaceAll(key, "\x00", "\x00\x00"))
		b.WriteString("\x00.")
	}
	return b.String()
}

// choose returns the condition by which a group of so many rules finds one of them. ok is false if
// it is best always found.
func (s sharing) choose(e entry, at level, rules int) (by expr.Condition, ok bool) {
	least := 0
	for _, c := range e.requires {
		if at.isBelow && e.copies*len(c.Values) > maxCopies {
			continue
		}
		cost := s.cost(c, e.where && !at.isDecoded)
		isBetter := !ok || cmp.Or(
			cmp.Compare(cost, least),
			cmp.Compare(len(c.Values), len(by.Values)),
			cmp.Compare(len(by.Path), len(c.Path)), // a label selects more narrowly than a kind
		) < 0
		if isBetter {
			by, least, ok = c, cost, true
		}
	}
	return by, ok && (!at.isBelow || least < rules)
}

// The cost of reading a field, as a number of rules that could be evaluated instead. The new state
// is mostly decoded already, the old one is not.
const (
	newStateCost = 1
	oldStateCost = 16
)

// cost returns how many rules a lookup by c finds in the worst case, plus the cost of the lookup.
// decodes says that it needs the old state decoded.
func (s sharing) cost(c expr.Condition, decodes bool) int {
	path, cost := keyOf(c.Path), 0
	for _, v := range c.Values {
		cost = max(cost, s[requirement{path, v}])
	}
	switch {
	case slices.Equal(c.Path, namespacePath) || slices.Equal(c.Path, namePath):
		// known without decoding
		return cost
	case decodes:
		return cost + oldStateCost
	}
	return cost + newStateCost
}
