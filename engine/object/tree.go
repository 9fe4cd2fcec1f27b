package object

import "sync"

// Tree is the decoded part of an object that some paths cover: map[string]any, []any, string, bool,
// nil, int64 (an integer that fits) and float64. A list has all of its elements, so that indexes
// and lengths are right, with nil for those that no path covers. A map has only the keys on covered
// paths.
//
// Its strings share memory: clone one that is kept for long. Nobody may change any of it.
type Tree struct {
	value any
	types typeTexts
	branches
}

// typeTexts are the JSON of an object's apiVersion and kind, as they stand in the text that was parsed;
// nil if they are absent.
type typeTexts struct{ apiVersion, kind []byte }

func (t *typeTexts) set(at place, raw []byte) {
	switch at {
	case atKind:
		t.kind = raw
	case atAPIVersion:
		t.apiVersion = raw
	}
}

// Types returns the JSON of the object's apiVersion and kind, as the parsed text has them; nil for
// what it has not, and of a map or a list only the bracket. They are valid as long as that text is.
func (t *Tree) Types() (apiVersion, kind []byte) { return t.types.apiVersion, t.types.kind }

// Value returns the tree's root. It is nil if there is no tree, or if nothing is covered.
func (t *Tree) Value() any {
	if t == nil {
		return nil
	}
	return t.value
}

// Release gives the tree's memory to another tree. Nobody may read any part of the tree afterwards.
// The garbage collector takes a tree that nobody releases.
func (t *Tree) Release() {
	if t == nil {
		return
	}
	t.value, t.types = nil, typeTexts{}
	t.branches.recycle()
	trees.Put(t)
}

var trees = sync.Pool{New: func() any { return new(Tree) }}

// branches are the maps and lists of one tree, most of the allocations of decoding. They serve one
// tree after the other. A nil branches keeps none.
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

// newMap returns a map for about that many entries.
func (b *branches) newMap(entries int) map[string]any {
	if b == nil || b.usedMaps == keptBranches {
		return make(map[string]any, entries)
	}
	if b.usedMaps == len(b.maps) {
		// room for eight costs no more
		b.maps = append(b.maps, make(map[string]any, max(entries, 8)))
	}
	b.usedMaps++
	return b.maps[b.usedMaps-1]
}

// newList returns an empty list and its number. Once it is full, the caller passes both to endList.
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
