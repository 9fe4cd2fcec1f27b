package object

import "sync"

// Tree is what was decoded of an object, as far as some paths cover it: map[string]any, []any, string, bool, nil, int64 (an
// integer that fits) and float64. A list has all of its elements, so that indexes and lengths are right, with nil for those
// of which nothing is covered; a map only has the keys on covered paths.
//
// Its strings share memory, so one that is kept for long should be cloned. Nothing of it may be changed.
type Tree struct {
	value any
	maps  branches
}

// Value is the tree's root; of no tree, and of nothing covered, it is nil.
func (t *Tree) Value() any {
	if t == nil {
		return nil
	}
	return t.value
}

// Release ends the tree: its memory is for another one. Nobody may look at any part of it any more. A tree that is not
// released is left to the garbage collector.
func (t *Tree) Release() {
	if t == nil {
		return
	}
	t.value = nil
	t.maps.recycle()
	trees.Put(t)
}

var trees = sync.Pool{New: func() any { return new(Tree) }}

// branches are the maps of one tree: the greater part of what decoding allocates.
type branches struct {
	all  []map[string]any // at most keptMaps outlive a tree, of at most keptEntries each
	used int
}

const (
	keptMaps    = 64
	keptEntries = 16
)

// make is a map for about so many entries.
func (m *branches) make(entries int) map[string]any {
	if m == nil {
		return make(map[string]any, entries)
	}
	if m.used < len(m.all) {
		m.used++
		return m.all[m.used-1]
	}
	one := make(map[string]any, max(entries, 8)) // room for eight costs no more
	if m.used < keptMaps {
		m.all = append(m.all, one)
		m.used++
	}
	return one
}

func (m *branches) recycle() {
	for i, one := range m.all[:m.used] {
		if len(one) > keptEntries {
			m.all[i] = make(map[string]any, 8)
			continue
		}
		clear(one)
	}
	m.used = 0
}
