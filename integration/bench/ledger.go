package main

import (
	"fmt"
	"strings"

	"github.com/informd/informd/integration/apistub"
)

// tally is a number of changes and the sum of their resourceVersions. Equal tallies almost
// certainly mean the same changes.
type tally struct {
	N   int
	Sum int64
}

func (t *tally) add(n int, resourceVersion int64) {
	t.N += n
	t.Sum += int64(n) * resourceVersion
}

// seen counts what a contestant has seen: the objects of the first list, the updates after it, and
// the deliveries to its handlers.
type seen struct {
	Objects, Updates, Handled tally
}

func (s seen) String() string {
	return fmt.Sprintf("%d objects, %d updates, %d deliveries",
		s.Objects.N, s.Updates.N, s.Handled.N)
}

// meets reports whether the contestant has seen everything due. It returns an error if it has seen
// more or something else. It ignores the parts that are nil in due.
func (s seen) meets(due due) (bool, error) {
	all := true
	for _, part := range []struct {
		what string
		got  tally
		due  *tally
	}{
		{"objects", s.Objects, due.objects},
		{"updates", s.Updates, due.updates},
		{"deliveries", s.Handled, due.handled},
	} {
		switch {
		case part.due == nil:
		case part.got.N > part.due.N:
			return false, fmt.Errorf("saw %d %s, and %d were due",
				part.got.N, part.what, part.due.N)
		case part.got.N < part.due.N:
			all = false
		case part.got.Sum != part.due.Sum && part.got.Sum != unsummed:
			return false, fmt.Errorf("saw %d %s as were due, but not the same",
				part.got.N, part.what)
		}
	}
	return all, nil
}

// unsummed stands for the sum if a contestant can only count.
const unsummed = -1

// due is what a contestant must see. A part is nil if it is unknown or does not apply.
type due struct {
	objects, updates, handled *tally
}

func (d due) String() string {
	text := ""
	for _, part := range []struct {
		what string
		due  *tally
	}{{"objects", d.objects}, {"updates", d.updates}, {"deliveries", d.handled}} {
		if part.due != nil {
			text += fmt.Sprintf(" %d %s", part.due.N, part.what)
		}
	}
	return strings.TrimSpace(text)
}

// ledger records what the load has made.
type ledger struct {
	resources []*entries
}

// entries records the objects of one resource and their updates. The resourceVersions of a batch
// count up from its first.
type entries struct {
	resource string
	objects  int
	first    int64 // of the objects
	batches  []batch
}

type batch struct {
	n     int
	first int64
}

// change identifies the state of an object after a number of updates; 0 means the first list.
type change struct {
	resource        string
	i, updates      int
	resourceVersion int64
}

// objects returns the tally of the first list. There must be no updates before it.
func (l *ledger) objects() *tally {
	var t tally
	for _, e := range l.resources {
		for i := range e.objects {
			t.add(1, e.first+int64(i))
		}
	}
	return &t
}

// updated returns the tally of all updates.
func (l *ledger) updated() *tally {
	return l.selected(func(change) int { return 1 })
}

// selected returns the tally of the updates, in which each counts as often as f says.
func (l *ledger) selected(f func(change) int) *tally {
	var t tally
	for _, e := range l.resources {
		for c := range e.changes {
			t.add(f(c), c.resourceVersion)
		}
	}
	return &t
}

// cached returns the tally of the objects in their final state.
func (l *ledger) cached() tally {
	var t tally
	for _, e := range l.resources {
		last := make([]int64, e.objects)
		for i := range last {
			last[i] = e.first + int64(i)
		}
		for c := range e.changes {
			last[c.i] = c.resourceVersion
		}
		for _, version := range last {
			t.add(1, version)
		}
	}
	return t
}

// changes yields the updates in order.
func (e *entries) changes(yield func(change) bool) {
	k := 0
	for _, b := range e.batches {
		for j := range b.n {
			i, updates := apistub.Turn(e.objects, k)
			if !yield(change{e.resource, i, updates, b.first + int64(j)}) {
				return
			}
			k++
		}
	}
}
