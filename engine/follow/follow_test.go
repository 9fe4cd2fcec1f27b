package follow

import (
	"slices"
	"testing"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// A rule that follows an informer learns that an object that it had inside elsewhere is gone,
// unless it has the object inside here.
func TestDeparted(t *testing.T) {
	t.Parallel()
	old, is := object.FromIdentity("shop", "a", "1", "1"), object.FromIdentity("shop", "a", "1", "2")
	key := delta.KeyOf(old)
	left := &Inside{Objects: map[delta.Key]*object.Object{key: old}}
	for name, c := range map[string]struct {
		inside     bool
		last, want *object.Object
		left       *Inside
	}{
		"not here":        {false, nil, old, left},
		"here, outside":   {false, is, old, left},
		"here, inside":    {true, is, nil, left},
		"never had it":    {false, is, nil, &Inside{}},
		"left no other":   {false, is, nil, nil},
		"gone everywhere": {true, nil, old, left},
	} {
		p := Pupil{Knew: Now{Has: func(*object.Object) bool { return c.inside }}}
		if got := p.Departed(key, c.last, c.left); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Every key has one turn, whatever comes in between, and rules keep theirs under other indexes.
func TestTurns(t *testing.T) {
	t.Parallel()
	c := New([]Pupil{{Rule: 1}, {Rule: 2}}, slices.Values([]string{"a", "b", "c"}))
	c.Took("b")
	c.Add(slices.Values([]string{"a", "d"}))
	c.Renumber(func(rule int) int { return rule + 4 })
	if c.Has(1) || !c.Has(5) || !c.Has(6) || c.Pupils[1].Rule != 6 {
		t.Errorf("rules %+v", c.Pupils)
	}
	var turns []string
	for key, ok := c.Next(); ok; key, ok = c.Next() {
		turns = append(turns, key)
	}
	if want := []string{"a", "c", "d"}; !slices.Equal(turns, want) || len(c.owed) != 0 {
		t.Errorf("turns %q, want %q", turns, want)
	}
}
