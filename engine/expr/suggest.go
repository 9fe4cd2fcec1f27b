package expr

import (
	"fmt"
	"slices"
	"strings"
)

// suggest names the candidate that was probably meant: "; did you mean x?", or nothing.
func suggest(name string, candidates []string) string {
	slices.Sort(candidates)
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, candidate := range candidates {
		if d := distance(name, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is how many letters have to be inserted, removed or replaced to make b of a. Names that are long are far from
// everything.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// clip keeps names in messages short.
func clip(name string) string {
	if len(name) > 64 {
		return strings.ToValidUTF8(name[:64], "") + "…"
	}
	return name
}
