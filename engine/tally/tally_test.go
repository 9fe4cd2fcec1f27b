package tally

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/state/records"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// notes are the notes of one rule.
type notes map[string][]byte

func (n notes) PutNote(note records.Note)    { n[note.Rule+" "+note.Name] = note.Value }
func (n notes) DeleteNote(rule, name string) { delete(n, rule+" "+name) }

// of returns the notes of a rule, by name.
func (n notes) of(rule string) map[string][]byte {
	all := make(map[string][]byte)
	for name, value := range n {
		if len(name) > len(rule) && name[:len(rule)+1] == rule+" " {
			all[name[len(rule)+1:]] = value
		}
	}
	return all
}

func change(version int) delta.Delta {
	return delta.Delta{Type: delta.Added, Object: object.FromIdentity("shop", "a", "uid", fmt.Sprint(version))}
}

// The next run goes on with what has counted, unless the count is another one.
func TestOverRestarts(t *testing.T) {
	t.Parallel()
	n, thrice := make(notes), &rule.Count{Times: 3, Within: time.Hour}
	mark := count.Hit{Of: count.ValueOf("shop/a"), At: noon}
	c := New("before", thrice, n)
	c.SetID("r")
	c.Begin()
	for version := range 2 {
		for range 2 { // the same change counts once
			if c.Add(change(version), mark, noon) {
				t.Error("a change goes on before the third")
			}
		}
	}
	names := slices.Sorted(maps.Keys(n.of("r")))
	if len(names) != 2 || len(n) != 2 || !IsNote(names[0]) || !IsNote(names[1]) || IsNote("counts") {
		t.Errorf("noted %q", names)
	}

	next := New("r", thrice, n)
	if !next.Restore(n.of("r")) || next.Open(noon) != 1 || next.Have(mark.Of, noon) != 2 {
		t.Errorf("%d windows are open, with %d changes", next.Open(noon), next.Have(mark.Of, noon))
	}
	if !next.Add(change(3), mark, noon) {
		t.Error("the third change does not go on")
	}
	other := New("r", &rule.Count{Times: 4, Within: time.Hour}, n)
	if other.Restore(n.of("r")) {
		t.Error("another count is taken for the same")
	}
	next.Forget()
	if len(n) != 0 {
		t.Errorf("still noted: %q", n)
	}
	next.End()
	next.Add(change(4), mark, noon)
	if len(n) != 0 {
		t.Errorf("noted of a rule that is gone: %q", n)
	}
}

// An object that a rule receives once more for another occasion does not count once more.
func TestOccasions(t *testing.T) {
	t.Parallel()
	c := New("r", &rule.Count{Times: 2, Within: time.Hour}, nil)
	again := change(1)
	again.Occasion = 2
	mark := count.Hit{Of: count.ValueOf("a"), At: noon}
	if c.Add(change(1), mark, noon) || c.Add(again, mark, noon) || !c.Add(change(2), mark, noon) {
		t.Error("the same change counts twice, or another one does not")
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	c := New("r", &rule.Count{Times: 2, Within: time.Hour}, nil)
	for i := range count.MaxWindows + 1 {
		c.Add(change(1), count.Hit{Of: count.ValueOf(fmt.Sprint(i)), At: noon}, noon)
	}
	if err := c.Full(); !errors.Is(err, ErrFull) || c.Full() != nil {
		t.Errorf("it is full: %v", err)
	}
}

func TestNoCount(t *testing.T) {
	t.Parallel()
	c := New("r", nil, make(notes))
	if c != nil || c.Open(noon) != 0 || c.Full() != nil || c.Restore(nil) {
		t.Error("a rule without a count has counted")
	}
	c.SetID("s")
	c.Begin()
	c.Forget()
	c.End()
}
