package ruletest

import "slices"

// verdict is how what came compares with what a test expects.
type verdict struct {
	missing    []int       // expected events that did not come
	unexpected []int       // events that came, and nobody expects
	nearest    map[int]int // for a missing one: the unexpected event that is most like it
	assigned   map[int]int // for an event that came: the expected one that it is
	reordered  bool        // every expected event came, and no other, but in another order
}

func (v verdict) ok() bool {
	return len(v.missing) == 0 && len(v.unexpected) == 0 && !v.reordered
}

// maxTries bounds the search for an assignment. Tests that need more are ambiguous: many expected
// events fit many that came.
const maxTries = 100_000

// match assigns events that came to the expected ones. lanes has the lane of each event that came.
// differs returns how different expected event w and event g are: 0 if g is as expected. Exact
// means that all events are in the order of the list; otherwise those of each lane are.
func match(wants int, lanes []string, exact bool, differs func(w, g int) int) verdict {
	gots := len(lanes)
	distance := make([][]int, wants)
	for w := range distance {
		distance[w] = make([]int, gots)
		for g := range distance[w] {
			distance[w][g] = differs(w, g)
		}
	}
	fits := func(w, g int) bool { return distance[w][g] == 0 }
	if wants == gots && inOrder(wants, lanes, exact, fits) {
		return verdict{}
	}

	taken := assign(wants, gots, fits)
	v := verdict{assigned: make(map[int]int)}
	for w := range wants {
		if !slices.Contains(taken, w) {
			v.missing = append(v.missing, w)
		}
	}
	for g, w := range taken {
		if w < 0 {
			v.unexpected = append(v.unexpected, g)
		} else {
			v.assigned[g] = w
		}
	}
	v.reordered = len(v.missing) == 0 && len(v.unexpected) == 0
	v.nearest = make(map[int]int)
	left := slices.Clone(v.unexpected)
	for _, w := range v.missing {
		if len(left) == 0 {
			break
		}
		i := 0
		for k := range left {
			if distance[w][left[k]] < distance[w][left[i]] {
				i = k
			}
		}
		v.nearest[w] = left[i]
		left = slices.Delete(left, i, i+1)
	}
	return v
}

// inOrder reports whether the expected events, in their order, are those that came. Each takes the
// first event of some lane that is not taken yet; exact allows one lane only.
func inOrder(wants int, lanes []string, exact bool, fits func(w, g int) bool) bool {
	taken := make([]bool, len(lanes))
	tries := 0
	var from func(w int) bool
	from = func(w int) bool {
		if w == wants {
			return true
		}
		tried := make(map[string]bool)
		for g, lane := range lanes {
			if exact {
				lane = ""
			}
			if taken[g] || tried[lane] {
				continue
			}
			tried[lane] = true
			if tries++; tries > maxTries {
				return false
			}
			if !fits(w, g) {
				continue
			}
			taken[g] = true
			if from(w + 1) {
				return true
			}
			taken[g] = false
		}
		return false
	}
	return from(0)
}

// assign returns for each event that came which expected event it is, or -1, regardless of order.
// As many as possible are assigned (a maximum bipartite matching).
func assign(wants, gots int, fits func(w, g int) bool) []int {
	taken := slices.Repeat([]int{-1}, gots)
	var place func(w int, seen []bool) bool
	place = func(w int, seen []bool) bool {
		for g := range gots {
			if seen[g] || !fits(w, g) {
				continue
			}
			seen[g] = true
			if taken[g] < 0 || place(taken[g], seen) {
				taken[g] = w
				return true
			}
		}
		return false
	}
	for w := range wants {
		place(w, make([]bool, gots))
	}
	return taken
}
