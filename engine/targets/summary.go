package targets

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// States returns all states that a claim can have, in order.
func States() []State { return []State{Asked, Done, Waits, Refused, Behind, Dropped} }

// Summary says in short what has come of some claims.
type Summary struct {
	States [Dropped + 1]int // how many claims are in each state
	Owned  int              // how many have their target, and still ask for it
	// First has the first claims: those that fail come before those behind another one, and then
	// the others. Within that, they are in order of the source object and the target.
	First []Claim
}

// All returns how many claims there are.
func (s *Summary) All() (n int) {
	for _, of := range s.States {
		n += of
	}
	return n
}

// Summarize returns what has come of the claims of a rule. First has at most most claims, all of
// which fail or are behind another one.
func (t *Table) Summarize(rule string, most int) Summary {
	s := summary{most: most, onlyTroubled: true}
	for askers := range t.someAskers(rule) {
		t.add(&s, askers)
	}
	return s.Summary
}

// SummarizeOf returns what has come of the claims of a source object. First has at most most
// claims, whatever came of them.
func (t *Table) SummarizeOf(a Asker, most int) Summary {
	s := summary{most: most}
	t.mu.Lock()
	of := t.ledger.asker(a)
	t.mu.Unlock()
	if of != nil {
		t.add(&s, []*asker{of})
	}
	return s.Summary
}

// add adds the claims of some source objects.
func (t *Table) add(s *summary, askers []*asker) {
	for some := range slices.Chunk(t.claimsOf(askers), page) {
		t.mu.Lock()
		for _, c := range some {
			if !c.isGone {
				s.add(c)
			}
		}
		t.mu.Unlock()
	}
}

// summary makes a Summary.
type summary struct {
	Summary
	most         int
	onlyTroubled bool
	ranks        []int // of First
}

// add adds a claim. The table's lock is held.
func (s *summary) add(c *claim) {
	state, rank := c.shown(), c.rank()
	s.States[state]++
	if c.isOwner() && !c.isDropped {
		s.Owned++
	}
	isFull := len(s.First) == s.most
	if s.most == 0 || s.onlyTroubled && rank > rankBehind ||
		isFull && rank > s.ranks[s.most-1] { // most of many
		return
	}
	v := c.view()
	at, _ := slices.BinarySearchFunc(s.First, v, func(other, v Claim) int {
		return cmp.Or(cmp.Compare(rankOf(&other), rank), compareClaims(&other, &v))
	})
	if at == s.most {
		return
	}
	if isFull {
		s.First, s.ranks = s.First[:s.most-1], s.ranks[:s.most-1]
	}
	s.First, s.ranks = slices.Insert(s.First, at, v), slices.Insert(s.ranks, at, rank)
}

// The ranks of claims in a Summary. A lower one comes first.
const (
	rankFails = iota
	rankRefused
	rankBehind
	rankWell
)

// rank returns the rank of a claim.
func (c *claim) rank() int {
	failures := 0
	if c.trouble != nil {
		failures = c.trouble.failures
	}
	return rank(c.shown(), failures)
}

func rankOf(c *Claim) int { return rank(c.State, c.Failures) }

func rank(state State, failures int) int {
	switch {
	case state == Refused:
		return rankRefused
	case state == Behind:
		return rankBehind
	case state == Waits, state == Dropped && failures > 0:
		return rankFails
	}
	return rankWell
}

// compareClaims compares claims by the source object and the target.
func compareClaims(a, b *Claim) int {
	return cmp.Or(compareAskers(a.Asker, b.Asker), compareTargets(a.Target, b.Target))
}

func compareTargets(a, b Target) int {
	return cmp.Or(
		strings.Compare(a.Resource.Group, b.Resource.Group),
		strings.Compare(a.Resource.Resource, b.Resource.Resource),
		strings.Compare(a.Subresource, b.Subresource), compareKeys(a.Key, b.Key))
}

// Sorted yields the claims of a rule in order of their source objects, and of one source object in
// the order in which they were made. It leaves out those that are removed meanwhile. The caller may
// use the table.
func (t *Table) Sorted(rule string) iter.Seq[Claim] {
	return func(yield func(Claim) bool) {
		views := make([]Claim, 0, page)
		for askers := range t.someAskers(rule) {
			for some := range slices.Chunk(t.claimsOf(askers), page) {
				views = t.views(views[:0], some)
				for _, v := range views {
					if !yield(v) {
						return
					}
				}
			}
		}
	}
}

// manyAskers is for how many source objects the lock is held at once.
const manyAskers = 256

// someAskers yields the source objects of a rule in order of their keys, some at a time.
func (t *Table) someAskers(rule string) iter.Seq[[]*asker] {
	t.mu.Lock()
	askers := t.askers(rule)
	t.mu.Unlock()
	slices.SortFunc(askers, func(a, b *asker) int { return compareKeys(a.key, b.key) })
	return slices.Chunk(askers, manyAskers)
}

// claimsOf returns the claims of some source objects.
func (t *Table) claimsOf(askers []*asker) (all []*claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range askers {
		for e := a.claims.Front(); e != nil; e = e.Next() {
			all = append(all, e.Value)
		}
	}
	return all
}

// views appends claims as others see them, but for those that are removed.
func (t *Table) views(views []Claim, claims []*claim) []Claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range claims {
		if !c.isGone {
			views = append(views, c.view())
		}
	}
	return views
}
