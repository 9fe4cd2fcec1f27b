package rule

import (
	"encoding/binary"
	"slices"

	"github.com/informd/informd/engine/object"
)

// memory remembers which rules the states of objects will be found by when they are old. It holds the newest state of each
// object that there is. The zero memory is empty.
type memory struct {
	states map[*object.Object]*[]int
	alike  map[string]*[]int // lists of rules, as most objects have one in common with many others; at most maxAlike
	key    []byte
}

// maxAlike bounds the lists that are shared. Past it, sharing begins anew.
const maxAlike = 4096

// recall gives the rules of a state, and forgets it: there is a newer one.
func (m *memory) recall(o *object.Object) (rules []int, ok bool) {
	remembered, ok := m.states[o]
	if !ok {
		return nil, false
	}
	delete(m.states, o)
	return *remembered, true
}

// remember remembers the rules of a state. It does not keep the slice.
func (m *memory) remember(o *object.Object, found []int) {
	m.key = m.key[:0]
	for _, rule := range found {
		m.key = binary.AppendUvarint(m.key, uint64(rule))
	}
	rules := m.alike[string(m.key)]
	if rules == nil {
		if m.states == nil {
			m.states = make(map[*object.Object]*[]int)
		}
		if m.alike == nil || len(m.alike) >= maxAlike {
			m.alike = make(map[string]*[]int)
		}
		kept := slices.Clone(found)
		rules = &kept
		m.alike[string(m.key)] = rules
	}
	m.states[o] = rules
}

// forget forgets an object that is gone.
func (m *memory) forget(o *object.Object) { delete(m.states, o) }
