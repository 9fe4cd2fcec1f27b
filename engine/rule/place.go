package rule

import (
	"slices"
	"strings"
)

// place is a path within objects, with the rules that are found by the string there. The zero place
// is the object itself, with no rules.
type place struct {
	key    string // its key in the place above
	rules  map[string]*list
	places []*place // places below it, sorted by key
	below  []int    // rules found at this place and below
}

func (p *place) isEmpty() bool { return len(p.rules) == 0 && len(p.below) == 0 }

// put puts the lists of rules that are found by the string at a path. It is called once for each
// path.
func (p *place) put(path []string, rules []int, lists map[string]*list) {
	for _, key := range path {
		p.below = append(p.below, rules...)
		i, ok := p.search(key)
		if !ok {
			p.places = slices.Insert(p.places, i, &place{key: key})
		}
		p = p.places[i]
	}
	p.rules = lists
}

func (p *place) search(key string) (i int, ok bool) {
	return slices.BinarySearchFunc(p.places, key, func(p *place, key string) int {
		return strings.Compare(p.key, key)
	})
}

// find appends the rules whose condition holds of v, the value at this place in s. Its time grows
// with the smaller side: v may have few of many labels that rules ask for, or the reverse.
//
// If v cannot have fields, rules that read one fail. Their authors should see that, so find
// appends these rules too.
func (p *place) find(v any, s *state, found []int) []int {
	switch v := v.(type) {
	case nil:
		return found
	case map[string]any:
		if len(v) < len(p.places) {
			for key, value := range v {
				if i, ok := p.search(key); ok {
					found = p.places[i].find(value, s, found)
				}
			}
			return found
		}
		for _, next := range p.places {
			found = next.find(v[next.key], s, found)
		}
		return found
	case string:
		found = p.rules[v].find(s, found)
	}
	return append(found, p.below...)
}
