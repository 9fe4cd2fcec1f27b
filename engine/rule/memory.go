package rule

import (
	"encoding/binary"

	"github.com/informd/informd/engine/object"
)

// memory remembers which rules the states of objects will be found by when they are old. It holds the newest state of each
// object that there is. The zero memory is empty.
type memory struct {
	states  map[*object.Object]*[]int
	alike   map[string]*[]int // lists of rules, as most objects have one in common with many others; at most maxAlike
	scratch []int
	key     []byte
}

// maxAlike bounds the lists that are shared. Past it, sharing begins anew.
const maxAlike = 4096

// recall appends the rules of a state, and forgets it: there is a newer one. A state that is not remembered is looked at.
func (m *memory) recall(o *object.Object, found []int, look func(*object.Object, []int) []int) []int {
	if rules, ok := m.states[o]; ok {
		delete(m.states, o)
		return append(found, *rules...)
	}
	return look(o, found)
}

// remember looks at a state.
func (m *memory) remember(o *object.Object, look func(*object.Object, []int) []int) {
	m.scratch = look(o, m.scratch[:0])
	m.key = m.key[:0]
	for _, rule := range m.scratch {
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
		kept := append([]int(nil), m.scratch...)
		rules = &kept
		m.alike[string(m.key)] = rules
	}
	m.states[o] = rules
}

// forget forgets an object that is gone.
func (m *memory) forget(o *object.Object) { delete(m.states, o) }
