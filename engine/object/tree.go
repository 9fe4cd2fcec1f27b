package object

import "sync"

// Tree is what was decoded of an object, as far as some paths cover it: map[string]any, []any, string, bool, nil, int64 (an
// integer that fits) and float64. A list has all of its elements, so that indexes and lengths are right, with nil for those
// of which nothing is covered; a map only has the keys on covered paths.
//
// Its strings share memory, so one that is kept for long should be cloned. Nothing of it may be changed.
type Tree struct {
	value any
	branches
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
	t.branches.recycle()
	trees.Put(t)
}

var trees = sync.Pool{New: func() any { return new(Tree) }}

// branches are the maps and lists of one tree, which are the greater part of what decoding allocates: used for one tree
// and then for the next. nil is none to use again.
type branches struct {
	maps      []map[string]any // at most keptBranches, of at most keptEntries each
	lists     [][]any          // likewise
	usedMaps  int
	usedLists int
}

const (
	keptBranches = 64
	keptEntries  = 16
)

// newMap is a map for about so many entries.
func (b *branches) newMap(entries int) map[string]any {
	if b == nil || b.usedMaps == keptBranches {
		return make(map[string]any, entries)
	}
	if b.usedMaps == len(b.maps) {
		b.maps = append(b.maps, make(map[string]any, max(entries, 8))) // room for eight costs no more
	}
	b.usedMaps++
	return b.maps[b.usedMaps-1]
}

// newList is an empty list. Filled, it goes to endList, with its number.
func (b *branches) newList() (list []any, number int) {
	if b == nil || b.usedLists == keptBranches {
		return []any{}, -1
	}
	if b.usedLists == len(b.lists) {
		b.lists = append(b.lists, make([]any, 0, 4))
	}
	b.usedLists++
	return b.lists[b.usedLists-1], b.usedLists - 1
}

func (b *branches) endList(list []any, number int) {
	if number >= 0 {
		b.lists[number] = list
	}
}

func (b *branches) recycle() {
	for i, m := range b.maps[:b.usedMaps] {
		if len(m) > keptEntries {
			b.maps[i] = make(map[string]any, 8)
			continue
		}
		clear(m)
	}
	for i, list := range b.lists[:b.usedLists] {
		if cap(list) > keptEntries {
			b.lists[i] = make([]any, 0, 4)
			continue
		}
		clear(list)
		b.lists[i] = list[:0]
	}
	b.usedMaps, b.usedLists = 0, 0
}
