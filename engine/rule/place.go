package rule

import (
	"slices"
	"strings"

	"github.com/informd/informd/engine/expr"
)

// place is a path within objects, with the rules that are found by the string there. The zero place
// is the object itself, with no rules.
type place struct {
	key    string // its key in the place above
	rules  map[string][]int
	places []*place // places below it, sorted by key
	below  []int    // rules found at this place and below
}

func (p *place) isEmpty() bool { return len(p.rules) == 0 && len(p.below) == 0 }

// add adds a rule after those that are there.
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
	return slices.BinarySearchFunc(p.places, key, func(p *place, key string) int {
		return strings.Compare(p.key, key)
	})
}

// find appends the rules whose condition holds of v, the value at this place. Its time grows with
// the smaller side: v may have few of many labels that rules ask for, or the reverse.
//
// If v cannot have fields, rules that ask for one fail. Their authors should hear of it, so find
// appends these rules too.
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
