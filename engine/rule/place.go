package rule

import (
	"slices"
	"strings"

	"github.com/informd/informd/engine/expr"
)

// place is a place in the objects, with the rules that are looked up by the string there. The zero place is an object
// itself, with no rules.
type place struct {
	key    string // under which it lies in the place above
	rules  map[string][]int
	places []*place // further down, sorted by key
	below  []int    // their rules
}

func (p *place) isEmpty() bool { return len(p.rules) == 0 && len(p.below) == 0 }

// add adds a rule, behind those that are there.
func (p *place) add(rule int, c expr.Condition) {
	for _, key := range c.Path {
		p.below = append(p.below, rule)
		i, ok := p.search(key)
		if !ok {
			p.places = slices.Insert(p.places, i, &place{key: key})
		}
		p = p.places[i]
	}
	if p.rules == nil {
		p.rules = make(map[string][]int)
	}
	addTo(p.rules, c.Values, rule)
}

func (p *place) search(key string) (i int, ok bool) {
	return slices.BinarySearchFunc(p.places, key, func(p *place, key string) int { return strings.Compare(p.key, key) })
}

// find appends the rules whose condition holds of v, which lies here. It takes the time of the smaller of the two: v may
// have few of very many labels that rules ask for, or the other way round.
//
// Where v can have no fields, what asks for some fails. That is worth telling its author, so these rules are found too.
func (p *place) find(v any, found []int) []int {
	switch v := v.(type) {
	case nil:
		return found
	case map[string]any:
		if len(v) < len(p.places) {
			for key, value := range v {
				if i, ok := p.search(key); ok {
					found = p.places[i].find(value, found)
				}
			}
			return found
		}
		for _, next := range p.places {
			found = next.find(v[next.key], found)
		}
		return found
	case string:
		found = append(found, p.rules[v]...)
	}
	return append(found, p.below...)
}
