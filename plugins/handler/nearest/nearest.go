// Package nearest finds the name that somebody probably meant, for "did you mean …?" in reports. It
// is pure, and bounds its work whatever its input.
package nearest

import "strings"

const (
	// maxCandidates bounds the names that one suggestion compares.
	maxCandidates = 1000
	// maxName is the most bytes of a name that gets a suggestion: names may come from handlers.
	maxName = 1 << 10
)

// Name returns the candidate that name was probably meant to be, or "" if none is close. It
// compares at most the first 1000.
func Name(name string, candidates []string) string {
	if len(name) > maxName {
		return ""
	}
	best, bestDistance := "", max(1, min(3, len(name)/3))+1
	for _, c := range candidates[:min(len(candidates), maxCandidates)] {
		if strings.EqualFold(c, name) {
			return c
		}
		d := distance(strings.ToLower(name), strings.ToLower(c), bestDistance)
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance returns how many single bytes must be inserted, deleted, changed or swapped with their
// neighbours to get from a to b. It returns limit if there are at least so many.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	// Rows of the usual table: the one before the last, the last, and the one being filled.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least >= limit {
			return limit
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
