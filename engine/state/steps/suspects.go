// Which changes are to be set aside.

package steps

import (
	"cmp"
	"slices"
	"time"
)

// MaxDeaths is how many times informd may die in the step of an object at one version before the
// change is set aside.
const MaxDeaths = 3

// Forgotten is how long after its last death a suspect is cleared, if no other process has completed
// or repeated the step by then.
const Forgotten = 24 * time.Hour

// Suspect is a change in whose step informd has died.
type Suspect struct {
	Informer uint64    `json:"informer"` // the Number of the informer's id
	Resource string    `json:"resource"`
	Object   string    `json:"object"`  // namespace/name, or the name alone
	Version  string    `json:"version"` // the resourceVersion
	Kind     Kind      `json:"kind"`
	Deaths   int       `json:"deaths"` // without a completed step in between
	At       time.Time `json:"at"`     // when the last of them was found
}

// Kind says why an object was evaluated. A change that informd survives as one kind may kill it as
// another.
type Kind = uint8

// These are the kinds.
const (
	Change Kind = 1 + iota // the object has changed
	Turn                   // a rule catches up, or somebody asked for the object
	Due                    // its time is up
	Round                  // a schedule or a resync
)

// isSame reports whether two suspects are about the same change. Kinds do not matter.
func (s Suspect) isSame(as Suspect) bool {
	return s.Informer == as.Informer && s.Object == as.Object && s.Version == as.Version
}

// Deadly adds up the suspects of all replicas, and returns the changes that have killed informd
// MaxDeaths times, in order. now leaves out what is Forgotten.
func Deadly(now time.Time, suspects []Suspect) (deadly []Suspect) {
	var sums []Suspect
	for _, s := range suspects {
		if now.Sub(s.At) > Forgotten || s.Deaths <= 0 {
			continue
		}
		i := slices.IndexFunc(sums, s.isSame)
		if i < 0 {
			sums = append(sums, s)
			continue
		}
		sums[i].Deaths += s.Deaths
		if s.At.After(sums[i].At) {
			sums[i].At = s.At
		}
	}
	for _, s := range sums {
		if s.Deaths >= MaxDeaths {
			deadly = append(deadly, s)
		}
	}
	slices.SortFunc(deadly, func(a, b Suspect) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Object, b.Object), a.At.Compare(b.At))
	})
	return deadly
}

// Number returns a number for an informer's id, the same in each process.
func Number(id string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	n := uint64(offset)
	for i := range len(id) {
		n = (n ^ uint64(id[i])) * prime
	}
	return n
}
