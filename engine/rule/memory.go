package rule

import (
	"encoding/binary"
	"slices"

	"github.com/informd/informd/engine/object"
)

// memory remembers, for the newest state of each object, which rules to find it by once it is the
// old state. The zero memory is empty.
type memory struct {
	states map[*object.Object]*[]int
	// lists that states share, because most objects have the same rules; at most maxAlike
	alike map[string]*[]int
	key   []byte
}

// maxAlike bounds the shared lists. At the bound, memory starts over with none.
const maxAlike = 4096

// recall returns the rules of a state and forgets them, because a newer state takes its place.
func (m *memory) recall(o *object.Object) (rules []int, ok bool) {
	remembered, ok := m.states[o]
	if !ok {
		return nil, false
	}
	delete(m.states, o)
	return *remembered, true
}

// remember stores the rules of a state. It does not keep the slice.
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
